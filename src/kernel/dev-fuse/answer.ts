/** What the kernel is told of a request. */
export type KernelAnswer = AnsweredRequest | RefusedRequest

interface AnsweredRequest {
  readonly parts: readonly Uint8Array[]
  /** Why it failed, where the kernel is told more than an errno. */
  readonly standsFor?: unknown
  /** Called when the kernel has it. */
  readonly onDelivered?: () => void
  /** Called instead when the kernel does not wait for it any more: what was made for it is to be let go. */
  readonly onLost?: () => void
}

interface RefusedRequest {
  /** Positive. */
  readonly errno: number
}

/** Done, with nothing to tell. */
export const DONE: KernelAnswer = { parts: [] }
