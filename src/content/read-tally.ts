import type { Clock } from '../domain/clock.ts'

/** Programs that read in a row are taken to wait also between two reads that are not farther apart. */
const IN_A_ROW_MS = 500

/** Counts reads of programs by whether the cache had what they asked for, and knows whether any waits for the service. */
export class ReadTally {
  readonly #clock: Clock
  #hits = 0
  #misses = 0
  #waiting = 0
  #lastWaitedAtMs = -Infinity

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock
  }

  get hits(): number {
    return this.#hits
  }

  get misses(): number {
    return this.#misses
  }

  count(isHit: boolean): void {
    if (isHit) this.#hits += 1
    else this.#misses += 1
  }

  /** Runs what waits for the service. */
  async waiting<Result>(task: () => Promise<Result>): Promise<Result> {
    this.#waiting += 1
    try {
      return await task()
    } finally {
      this.#waiting -= 1
      this.#lastWaitedAtMs = this.#clock.now()
    }
  }

  /** Rejects with the reason of the signal. */
  async untilNoneWaits(signal?: AbortSignal): Promise<void> {
    while (this.#isAnyWaiting()) await this.#clock.sleep(IN_A_ROW_MS, signal)
  }

  #isAnyWaiting(): boolean {
    const sinceMs = this.#clock.now() - this.#lastWaitedAtMs
    return this.#waiting > 0 || (sinceMs >= 0 && sinceMs < IN_A_ROW_MS)
  }
}
