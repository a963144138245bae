import type { Clock } from '../domain/clock.ts'

const PARTS = 4

/**
 * A limit on standing still. It counts ticks rather than comparing times. So a clock that is set,
 * or a machine that slept, does not end what is alive, and a touch costs next to nothing.
 */
export class Deadline {
  readonly #clock: Clock
  readonly #onExpire: () => void
  #cancel: (() => void) | undefined
  #ticksLeft = 0

  constructor(clock: Clock, onExpire: () => void) {
    this.#clock = clock
    this.#onExpire = onExpire
  }

  /** Expires `limitMs` from now, or after the last touch by that time to a quarter more. */
  start(limitMs: number): void {
    this.stop()
    this.#ticksLeft = PARTS
    this.#arm(limitMs / PARTS)
  }

  touch(): void {
    this.#ticksLeft = PARTS + 1
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(tickMs: number): void {
    this.#cancel = this.#clock.after(tickMs, () => {
      this.#cancel = undefined
      this.#ticksLeft -= 1
      if (this.#ticksLeft <= 0) this.#onExpire()
      else this.#arm(tickMs)
    })
  }
}
