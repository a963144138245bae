import type { Clock } from '../domain/clock.ts'
import type { Logger } from '../domain/logger.ts'
import type { ListingAnswer } from '../state/listing-store.ts'

/** Where the last listing is kept between mounts. */
export interface ListingKeeper {
  load(): Promise<ListingAnswer | undefined>
  save(listing: ListingAnswer): Promise<void>
}

interface SavedListingDeps {
  readonly store: ListingKeeper
  readonly clock: Clock
  readonly log: Logger
}

/** Records change in bursts, and a large listing takes a while to write. */
const SAVE_AFTER_MS = 3_000

/**
 * Saves the last listing every few seconds at most, and the first one at once: without any, a mount without network has
 * nothing to show. A failure is logged: only such a mount misses it.
 */
export class SavedListing {
  readonly #deps: SavedListingDeps
  #latest: ListingAnswer | undefined
  #cancelTimer: (() => void) | undefined
  #saving: Promise<void> = Promise.resolve()
  /** How many new answers were noted, and how many of these are saved. */
  #notedCount = 0
  #savedCount = 0
  #isAnyThere = false

  constructor(deps: SavedListingDeps) {
    this.#deps = deps
  }

  /** What an earlier process has saved. */
  async load(): Promise<ListingAnswer | undefined> {
    const saved = await this.#deps.store.load()
    this.#isAnyThere = saved !== undefined
    return saved
  }

  /** Takes note of an answer. One that says nothing new is written on close only, for its time. */
  note(listing: ListingAnswer, isNew: boolean): void {
    this.#latest = listing
    if (isNew) this.#notedCount += 1
    if (!isNew || this.#cancelTimer !== undefined) return
    if (!this.#isAnyThere) {
      this.#isAnyThere = true
      this.#save()
      return
    }
    this.#cancelTimer = this.#deps.clock.after(SAVE_AFTER_MS, () => {
      this.#save()
    })
  }

  /** Writes what is new now; false when that failed. */
  async keep(): Promise<boolean> {
    if (this.#savedCount < this.#notedCount) {
      this.#cancelTimer?.()
      this.#save()
    }
    const wanted = this.#notedCount
    await this.#saving
    return this.#savedCount >= wanted
  }

  async close(): Promise<void> {
    this.#cancelTimer?.()
    this.#save()
    await this.#saving
  }

  #save(): void {
    this.#cancelTimer = undefined
    this.#saving = this.#saving.then(async () => {
      const listing = this.#latest
      const notedCount = this.#notedCount
      if (listing === undefined) return
      this.#latest = undefined
      const { records, startedAtMs, receivedAtMs } = listing
      try {
        await this.#deps.store.save({ records, startedAtMs, receivedAtMs })
        this.#savedCount = notedCount
      } catch (error) {
        this.#latest ??= listing
        this.#deps.log.warn({ error: String(error) }, 'The listing could not be kept.')
      }
    })
  }
}
