import type { Clock } from '../domain/clock.ts'

/** A write that takes longer than this has waited for the disk and not for the page cache, in ms. */
const SLOW_MS = 20
const SLOW_FOR_MS = 10_000

/**
 * Whether the disk keeps up. While it does, a write from the main thread costs less than handing it
 * to another. Once it does not, such a write would hold up everything else.
 */
export class DiskSpeed {
  readonly #clock: Clock
  #slowUntilMs = -Infinity

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get keepsUp(): boolean {
    return this.#clock.now() >= this.#slowUntilMs
  }

  /** Does a piece of work on the disk and notes how long it took. */
  time<Result>(work: () => Result): Result {
    const startedMs = this.#clock.now()
    try {
      return work()
    } finally {
      const now = this.#clock.now()
      if (now - startedMs > SLOW_MS) this.#slowUntilMs = now + SLOW_FOR_MS
    }
  }
}
