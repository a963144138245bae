import type { BagId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import type { ListingSnapshot } from './listing.ts'

/** How late the listing shows what the service has confirmed, as far as its answers told. */
export class ListingLag {
  /** Of bags that are not listed yet: how long after their confirmation a listing was asked for that lacks them, in ms. */
  readonly #missingForMs = new Map<BagId, number>()
  #listed = 0
  #longestMs = 0

  /** The longest so far, in ms; undefined before anything that was stored here was listed. */
  get longestMs(): number | undefined {
    return this.#listed === 0 ? undefined : this.#longestMs
  }

  /** To be called with each new answer, before the intents that it agrees with are forgotten. */
  note({ index, startedAtMs }: ListingSnapshot, intents: readonly Intent[]): void {
    for (const intent of intents) {
      if (intent.kind !== 'put' || intent.phase !== 'confirmed') continue
      const { bagId, confirmedAtMs } = intent
      if (bagId === undefined || confirmedAtMs === undefined) continue
      if (index.recordsOf(bagId).length > 0) this.#noteListed(bagId)
      else if (startedAtMs > confirmedAtMs) {
        this.#missingForMs.set(bagId, startedAtMs - confirmedAtMs)
      }
    }
  }

  /** What never shows was deleted by another machine: that is no lag. */
  #noteListed(bagId: BagId): void {
    this.#listed += 1
    this.#longestMs = Math.max(this.#longestMs, this.#missingForMs.get(bagId) ?? 0)
    this.#missingForMs.delete(bagId)
  }
}
