/** How much of the mean the last time is. */
const WEIGHT = 1 / 16

/** The mean of the last few times; what is long ago counts less and less. */
export class MeanTime {
  #meanMs: number | undefined

  note(tookMs: number): void {
    this.#meanMs =
      this.#meanMs === undefined ? tookMs : this.#meanMs + WEIGHT * (tookMs - this.#meanMs)
  }

  /** In whole ms; undefined before the first. */
  get ms(): number | undefined {
    return this.#meanMs === undefined ? undefined : Math.round(this.#meanMs)
  }
}
