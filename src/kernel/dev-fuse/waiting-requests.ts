import type { Clock } from '../../domain/clock.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { KernelRequest } from './request.ts'

const LOOK_AGAIN_MS = 100

/** A request that waits for its answer. */
interface Waiting extends Pick<KernelRequest, 'unique' | 'pid'> {
  /** Directories that the kernel may keep locked until it is answered. */
  readonly directories: readonly NodeId[]
}

interface WaitingDeps {
  readonly clock: Clock
  readonly isToStop: (pid: number) => boolean
  /** Called when no program is left to hear the answer. */
  readonly onGivenUp: (unique: bigint) => void
}

/** Requests that were not answered within the call: each is taken out once, by its answer or by an interruption. */
export class WaitingRequests {
  readonly #deps: WaitingDeps
  readonly #waiting = new Map<bigint, Waiting>()
  /** The kernel tells an interruption once: those that did not end their program are looked at again. */
  readonly #interrupted = new Set<Waiting>()
  /** How many hold each directory. */
  readonly #holders = new Map<NodeId, number>()
  #isLooking = false

  constructor(deps: WaitingDeps) {
    this.#deps = deps
  }

  get size(): number {
    return this.#waiting.size
  }

  has(unique: bigint): boolean {
    return this.#waiting.has(unique)
  }

  /** The token takes it out. */
  add({ unique, pid, directories }: Waiting): Waiting {
    const waiting = { unique, pid, directories }
    this.#waiting.set(unique, waiting)
    for (const each of directories) this.#holders.set(each, (this.#holders.get(each) ?? 0) + 1)
    return waiting
  }

  /** True while a request waits that the kernel may keep this directory locked for. */
  hold(directory: NodeId): boolean {
    return this.#holders.has(directory)
  }

  /** False when it was given up. */
  take(waiting: Waiting): boolean {
    if (this.#waiting.get(waiting.unique) !== waiting) return false
    this.#waiting.delete(waiting.unique)
    this.#interrupted.delete(waiting)
    for (const each of waiting.directories) {
      const left = (this.#holders.get(each) ?? 0) - 1
      if (left > 0) this.#holders.set(each, left)
      else this.#holders.delete(each)
    }
    return true
  }

  /** A signal has come for the program that waits. */
  interrupt(unique: bigint): void {
    const waiting = this.#waiting.get(unique)
    if (waiting === undefined) return
    this.#interrupted.add(waiting)
    this.#look()
  }

  #look(): void {
    for (const waiting of [...this.#interrupted]) {
      if (!this.#deps.isToStop(waiting.pid)) continue
      this.take(waiting)
      this.#deps.onGivenUp(waiting.unique)
    }
    if (this.#interrupted.size === 0 || this.#isLooking) return
    this.#isLooking = true
    this.#deps.clock.after(LOOK_AGAIN_MS, () => {
      this.#isLooking = false
      this.#look()
    })
  }
}
