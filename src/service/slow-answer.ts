import type { Clock } from '../domain/clock.ts'
import type { Answer } from './exchange.ts'

/** Bytes a second: less than the slowest line that a drive is used over. */
export const LEAST_BYTES_PER_SECOND = 1024

/**
 * A limit on a long answer that moves, but so slowly that it never ends: below `LEAST_BYTES_PER_SECOND` over `windowMs`
 * its body is destroyed with `timed-out`.
 */
export class SlowAnswerLimit {
  readonly #clock: Clock
  readonly #answer: Answer
  readonly #windowMs: number
  #cancel: () => void = () => undefined
  #bytes = 0

  constructor(clock: Clock, answer: Answer, windowMs: number) {
    this.#clock = clock
    this.#answer = answer
    this.#windowMs = windowMs
    this.#watch()
  }

  /** Takes note of bytes that came. */
  count(bytes: number): void {
    this.#bytes += bytes
  }

  stop(): void {
    this.#cancel()
  }

  #watch(): void {
    this.#bytes = 0
    this.#cancel = this.#clock.after(this.#windowMs, () => {
      if (this.#bytes >= (LEAST_BYTES_PER_SECOND * this.#windowMs) / 1000) this.#watch()
      else this.#answer.body.destroy(this.#answer.error('timed-out', 'its answer came too slowly.'))
    })
  }
}
