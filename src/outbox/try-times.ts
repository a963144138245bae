import type { IntentId } from '../domain/ids.ts'

/** When intents are tried again whose last try failed; in milliseconds since the epoch. */
export class TryTimes {
  /** Removed by the next try, or when the intent is gone. */
  readonly #next = new Map<IntentId, number>()
  /** Those of them whose time the service named. */
  readonly #asked = new Set<IntentId>()

  /** Undefined for one that may be tried at once. */
  get(id: IntentId): number | undefined {
    return this.#next.get(id)
  }

  /** With `isAsked`, the service named the time. */
  set(id: IntentId, atMs: number, { isAsked = false } = {}): void {
    this.#next.set(id, atMs)
    if (isAsked) this.#asked.add(id)
  }

  /** It may be tried at once, or is being tried. */
  delete(id: IntentId): void {
    this.#next.delete(id)
    this.#asked.delete(id)
  }

  /** All may be tried at once. */
  clear(): void {
    this.#next.clear()
  }

  /** The clock was set back, and the times are by the one before: all may be tried at once that are not being tried. */
  forgetTimes(): void {
    for (const [id, atMs] of this.#next) if (atMs !== Infinity) this.delete(id)
  }

  /** Those that are meant may be tried at once, unless the service named their time. */
  hasten(isMeant: (id: IntentId) => boolean): void {
    for (const id of this.#next.keys()) {
      if (isMeant(id) && !this.#asked.has(id)) this.#next.delete(id)
    }
  }

  forget(isGone: (id: IntentId) => boolean): void {
    for (const ids of [this.#next, this.#asked]) {
      for (const id of ids.keys()) if (isGone(id)) this.delete(id)
    }
  }
}
