import type { Clock } from '../domain/clock.ts'
import type { Logger } from '../domain/logger.ts'
import type { StoredListing } from '../state/listing-store.ts'

/** Where the last listing is kept between mounts. */
export interface ListingKeeper {
  load(): Promise<StoredListing | undefined>
  save(listing: StoredListing): Promise<void>
}

interface SavedListingDeps {
  readonly store: ListingKeeper
  readonly clock: Clock
  readonly log: Logger
}

/** Records change in bursts, and a large listing takes a while to write. */
const SAVE_AFTER_MS = 3_000

/** Saves the last listing every few seconds at most. A failure is logged: only a mount without network misses it. */
export class SavedListing {
  readonly #deps: SavedListingDeps
  #latest: StoredListing | undefined
  #cancelTimer: (() => void) | undefined
  #saving: Promise<void> = Promise.resolve()
  /** How often something new was noted, and how much of that is on disk. */
  #noted = 0
  #kept = 0

  constructor(deps: SavedListingDeps) {
    this.#deps = deps
  }

  /** Takes note of an answer. One that says nothing new is written on close only, for its time. */
  note(listing: StoredListing, isNew: boolean): void {
    this.#latest = listing
    if (isNew) this.#noted += 1
    if (!isNew || this.#cancelTimer !== undefined) return
    this.#cancelTimer = this.#deps.clock.after(SAVE_AFTER_MS, () => {
      this.#save()
    })
  }

  /** Writes what is new now; false when that failed. */
  async keep(): Promise<boolean> {
    if (this.#kept < this.#noted) {
      this.#cancelTimer?.()
      this.#save()
    }
    const wanted = this.#noted
    await this.#saving
    return this.#kept >= wanted
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
      const noted = this.#noted
      if (listing === undefined) return
      this.#latest = undefined
      const { records, startedAtMs, receivedAtMs } = listing
      try {
        await this.#deps.store.save({ records, startedAtMs, receivedAtMs })
        this.#kept = noted
      } catch (error) {
        this.#latest ??= listing
        this.#deps.log.warn({ error: String(error) }, 'The listing could not be kept.')
      }
    })
  }
}
