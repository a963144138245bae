/** Counts reads by whether the cache had what they asked for. */
export class ReadTally {
  #hits = 0
  #misses = 0

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
}
