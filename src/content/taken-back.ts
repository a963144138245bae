/**
 * Counts how often content was taken back that programs may have read: it turned out to be wrong, or its user emptied
 * the cache. What the kernel has of any content from before is then asked for again. That is rare, so it is one count for
 * all bags.
 */
export class TakenBack {
  #times = 0

  get times(): number {
    return this.#times
  }

  note(): void {
    this.#times += 1
  }
}
