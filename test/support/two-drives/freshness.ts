import type { Witness } from './witness.ts'
import type { Machine } from './machine.ts'

/** More than a listing is ever later than it is told to be: clocks are read at several places. */
const SLACK_MS = 50
/** In so many listings a drive finds out that a bag which it stored itself is gone: it asks for it, and may be answered late. */
const LISTINGS_FOR_OWN = 10

/** Tells versions that a drive must not show any more. Counted in listings, so that no slow machine is a fault. */
export class Freshness {
  readonly #witness: Witness
  readonly #lagMs: number
  /** Contents that were held against what the drive had heard by then. */
  compared = 0

  constructor(witness: Witness, { lagMs }: { readonly lagMs: number }) {
    this.#witness = witness
    this.#lagMs = lagMs === 0 ? 0 : lagMs + SLACK_MS
  }

  /**
   * A file of the root was read from `at` on. Undefined when the drive may show this content; else how many listings
   * have told it by then that the version is gone, and how many it may need.
   */
  judge(
    machine: Machine,
    file: { readonly name: string; readonly content: string; readonly at: number },
  ): { readonly heard: number; readonly allowed: number } | undefined {
    const lives = this.#witness.history
      .named(file.name)
      .filter(({ files }) => files.get('') === file.content)
    if (file.content === '' || lives.length === 0) return undefined
    this.compared += 1
    const goneAt = Math.max(...lives.map(({ endedAt = Infinity }) => endedAt))
    const heard = this.listingsSince(machine, goneAt, file.at)
    const isOwn = lives.some(({ storedBy }) => storedBy === machine.who)
    const allowed = isOwn ? LISTINGS_FOR_OWN : 0
    return heard === 0 ? undefined : { heard, allowed }
  }

  /** Listings that have to know of a change, and that a drive has taken in before a time. */
  listingsSince({ who, mountedAt }: Machine, changedAt: number, before: number): number {
    const since = Math.max(mountedAt, changedAt + this.#lagMs)
    const takenIn = this.#witness.listings.takenIn(who, before)
    return takenIn.filter(({ begunAt }) => begunAt >= since).length
  }
}
