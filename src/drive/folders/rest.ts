import type { Clock } from '../../domain/clock.ts'

/** A folder that never rests is packed this often all the same. */
const LONGEST_MS = 60_000

/** How long a folder rests before it is packed: longer when its uploads take longer. */
export class Rest {
  readonly #clock: Clock
  readonly #leastMs: number
  readonly #onOver: () => void
  #cancelTimer: (() => void) | undefined
  #lastChangeMs = 0
  #firstChangeMs = 0
  #uploadMs = 0
  #packedAtMs = 0

  constructor(clock: Clock, leastMs: number, onOver: () => void) {
    this.#clock = clock
    this.#leastMs = leastMs
    this.#onOver = onOver
  }

  /** Begins the time of rest anew. */
  touch(): void {
    const now = this.#clock.now()
    this.#lastChangeMs = now
    if (this.#cancelTimer !== undefined) return
    this.#firstChangeMs = now
    this.#wait(this.#ms)
  }

  get #ms(): number {
    return Math.max(this.#leastMs, this.#uploadMs)
  }

  #wait(ms: number): void {
    this.#cancelTimer = this.#clock.after(ms, () => {
      this.#cancelTimer = undefined
      const now = this.#clock.now()
      const rested = now - this.#lastChangeMs
      const longest = Math.max(LONGEST_MS, 3 * this.#uploadMs)
      if (rested >= this.#ms || now - this.#firstChangeMs >= longest) this.#onOver()
      else this.#wait(this.#ms - rested)
    })
  }

  /** Until the next change there is nothing to wait for. */
  end(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  notePacking(): void {
    this.#packedAtMs = this.#clock.now()
  }

  noteUploaded(): void {
    // A zip that an earlier process packed tells nothing of how long it takes here.
    if (this.#packedAtMs > 0) this.#uploadMs = this.#clock.now() - this.#packedAtMs
  }
}
