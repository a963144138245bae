/** A range of bytes: first byte, and the byte after the last. */
export type ByteRange = readonly [start: number, end: number]

/**
 * A set of byte positions, kept as sorted ranges that neither touch nor overlap.
 *
 * The ranges are one flat list of edges, start and end in turn. So a position is in the set exactly
 * when an odd number of edges is at or before it.
 */
export class RangeSet {
  #edges: number[] = []
  #covered = 0

  /** How many bytes are in the set. */
  get covered(): number {
    return this.#covered
  }

  /** The byte after the last one in the set; 0 when it is empty. */
  get end(): number {
    return this.#edges.at(-1) ?? 0
  }

  add(start: number, end: number): void {
    checkRange(start, end)
    if (start === end) return
    const last = this.#edges.length - 1
    if (last > 0 && this.#edges[last] === start) {
      this.#edges[last] = end
      this.#covered += end - start
      return
    }
    this.#join(start, end)
  }

  clear(): void {
    this.#edges = []
    this.#covered = 0
  }

  /** True when every byte of the range is in the set; an empty range always is. */
  contains(start: number, end: number): boolean {
    if (start >= end) return true
    const index = this.#countAtOrBefore(start)
    return index % 2 === 1 && (this.#edges[index] ?? 0) >= end
  }

  /** The first position at or after `from` that is not in the set. */
  firstGap(from: number): number {
    const index = this.#countAtOrBefore(from)
    return index % 2 === 1 ? (this.#edges[index] ?? from) : from
  }

  /** The first position at or after `from` that is in the set; Infinity when there is none. */
  firstPresent(from: number): number {
    const index = this.#countAtOrBefore(from)
    return index % 2 === 1 ? from : (this.#edges[index] ?? Infinity)
  }

  /** The ranges in order; what JSON.stringify writes, and what `parse` takes. */
  toJSON(): ByteRange[] {
    const ranges: ByteRange[] = []
    for (let index = 0; index < this.#edges.length; index += 2) {
      ranges.push([this.#edges[index] ?? 0, this.#edges[index + 1] ?? 0])
    }
    return ranges
  }

  /** The set that `toJSON` described, or undefined when `value` is anything else. */
  static parse(value: unknown): RangeSet | undefined {
    if (!Array.isArray(value)) return undefined
    const set = new RangeSet()
    let previousEnd = -1
    for (const range of value as unknown[]) {
      if (!isByteRange(range) || range[0] <= previousEnd) return undefined
      set.add(range[0], range[1])
      previousEnd = range[1]
    }
    return set
  }

  /** Makes every position of the range a member. */
  #join(start: number, end: number): void {
    const from = this.#countBefore(start)
    const to = this.#countAtOrBefore(end)
    const before = this.#coveredWithin(start, end, from, to)
    const edges: number[] = []
    if (from % 2 === 0) edges.push(start)
    if (to % 2 === 0) edges.push(end)
    this.#edges.splice(from, to - from, ...edges)
    this.#covered += end - start - before
  }

  /** Members of [start, end), given how many edges are before `start` and up to `end`. */
  #coveredWithin(start: number, end: number, from: number, to: number): number {
    let covered = 0
    let position = start
    for (let index = from; index < to; index += 1) {
      const edge = this.#edges[index] ?? end
      if (index % 2 === 1) covered += edge - position
      position = edge
    }
    return to % 2 === 1 ? covered + end - position : covered
  }

  #countBefore(position: number): number {
    return this.#count((edge) => edge < position)
  }

  #countAtOrBefore(position: number): number {
    return this.#count((edge) => edge <= position)
  }

  #count(isCounted: (edge: number) => boolean): number {
    let low = 0
    let high = this.#edges.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (isCounted(this.#edges[middle] ?? 0)) low = middle + 1
      else high = middle
    }
    return low
  }
}

function checkRange(start: number, end: number): void {
  if (!isPosition(start) || !isPosition(end) || start > end) {
    throw new RangeError(`Not a byte range: ${start} to ${end}.`)
  }
}

function isPosition(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function isByteRange(value: unknown): value is ByteRange {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [start, end] = value as unknown[]
  return isPosition(start) && isPosition(end) && start < end
}
