import type { Clock } from '../../domain/clock.ts'
import type { Listing } from '../../namespace/listing.ts'
import type { Entries } from './entries.ts'

interface KeptFreshDeps {
  readonly listing: Pick<Listing, 'ttlMs' | 'current'>
  readonly entries: Pick<Entries, 'freshNow'>
  readonly clock: Clock
}

/** The longest trust. */
const LONGEST_MS = 120_000
/** Listings that are asked for after a drive was last used, at most about. */
const LISTINGS = 24
/** How long the service may be busy with these, all in all. */
const BUSY_MS = 4_000
/** A listing is asked for once it is half as old as it may be: it is looked at so often in that time. */
export const LOOKS_PER_TTL = 4

/**
 * Lets a kernel go by what it was told. A kernel that does asks nothing, so nothing would ask for a new listing: here
 * that is done in its place, for as long as the last trust lasts. A drive that is not used rests.
 */
export class KeptFresh {
  readonly #deps: KeptFreshDeps
  /** Looks to come. They are counted, since the kernel's time stands still while the machine sleeps, and the clock does not. */
  #looksLeft = 0
  #cancel: (() => void) | undefined
  #isClosed = false

  constructor(deps: KeptFreshDeps) {
    this.#deps = deps
  }

  /**
   * For how long an answer of now may be trusted, in ms. The longer the service takes for a listing, the shorter: the
   * listings that are asked for after the last use are a price for nothing, where no program comes back.
   */
  trust(): number {
    const { listing } = this.#deps
    const { ttlMs } = listing
    const snapshot = listing.current()
    if (snapshot === undefined || this.#isClosed) return 0
    const tookMs = Math.max(1, snapshot.receivedAtMs - snapshot.startedAtMs)
    const affordable = ttlMs * Math.max(1, Math.min(LISTINGS, BUSY_MS / tookMs))
    const ms = Math.min(LONGEST_MS, affordable)
    this.#looksLeft = Math.max(this.#looksLeft, Math.ceil(ms / this.#everyMs()))
    if (this.#cancel === undefined) this.#lookLater()
    return ms
  }

  #lookLater(): void {
    const { clock, entries } = this.#deps
    this.#cancel = clock.after(this.#everyMs(), () => {
      this.#cancel = undefined
      if (this.#isClosed || this.#looksLeft === 0) return
      this.#looksLeft -= 1
      entries.freshNow()
      this.#lookLater()
    })
  }

  /** The time between two looks, in ms. */
  #everyMs(): number {
    return Math.max(1, this.#deps.listing.ttlMs / LOOKS_PER_TTL)
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }
}
