import { listedAs } from '../domain/folder-names.ts'
import type { BagRecord } from '../domain/record.ts'
import type { PutIntent } from '../intents/intent.ts'
import { isWatched } from '../intents/rules.ts'
import { ofPut, seenUploaded, takenAway, unwatched, watched } from '../intents/transitions.ts'
import { isOfOther } from './lost-answer.ts'
import type { UploaderDeps, UploaderSettings } from './ports.ts'

type RiskSettings = Pick<UploaderSettings, 'deletingMs' | 'listingLagMs' | 'durable'>

/** A service that never lists what it gave an id again gets it no more often than this. */
const MOST_TAKEN = 3

/**
 * So long a bag that had its id before may be taken by a DELETE from then, in ms. What was stored is listed to the machine
 * that deletes, and what was deleted is listed no more, a lag later each.
 */
export function riskMs({ deletingMs, listingLagMs }: RiskSettings): number {
  return deletingMs + 2 * listingLagMs
}

/** Sees to bags that had their ids before: a DELETE names a bag by its id, and one from before may come late. */
export class Watch {
  readonly #deps: Pick<UploaderDeps, 'listing' | 'outbox' | 'clock'>
  readonly #settings: RiskSettings

  constructor(deps: Pick<UploaderDeps, 'listing' | 'outbox' | 'clock'>, settings: RiskSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Where such a DELETE is known to be likely: resolves when it cannot come any more. */
  async untilSafe(
    { isAtRisk = false, answeredAtMs = 0 }: PutIntent,
    signal: AbortSignal,
  ): Promise<void> {
    if (!isAtRisk) return
    const { clock } = this.#deps
    const longestMs = riskMs(this.#settings)
    const restMs = answeredAtMs + longestMs - clock.now()
    await clock.sleep(Math.min(Math.max(restMs, 0), longestMs), signal)
  }

  /** Where none is known of: a put that was just confirmed is looked at once the listing has it, and once none can come. */
  begin(put: PutIntent): PutIntent {
    // A folder goes on to its next round, which is made to this bag.
    if (put.isFolder === true || (put.timesTaken ?? 0) >= MOST_TAKEN) return put
    return watched(put, this.#deps.clock.now() + this.#settings.listingLagMs)
  }

  /** Looks when it is time. Answers the put as it is then; one that waits again has lost its bag. */
  async look(put: PutIntent, signal: AbortSignal): Promise<PutIntent> {
    const { listing, outbox, clock } = this.#deps
    if (!isWatched(put) || clock.now() < put.lookAtMs) return put
    const current = listing.current()
    const isNewer = current !== undefined && current.startedAtMs >= put.lookAtMs
    const { index, records } = isNewer ? current : await listing.refreshNow(signal)
    const found = put.bagId === undefined ? [] : index.recordsOf(put.bagId)
    if (found.length > 0) return this.#update(put, (latest) => this.#seen(latest, found))
    if (this.#isReplaced(put, records)) return this.#update(put, unwatched)
    const latest = outbox.put(put.id)
    if (latest?.bagId !== put.bagId) return latest ?? put
    return this.#update(put, takenAway)
  }

  /** The first look tells when the bag was uploaded; the second is the last. */
  #seen(put: PutIntent, found: readonly Pick<BagRecord, 'uploadedAtMs'>[]): PutIntent {
    if (!isWatched(put) || put.bagId === undefined) return put
    if (put.uploadedAtMs !== undefined) return unwatched(put)
    const atMs = Math.max(...found.map(({ uploadedAtMs }) => uploadedAtMs))
    const restMs = riskMs(this.#settings) - this.#settings.listingLagMs
    return watched(seenUploaded(put, { bagId: put.bagId, atMs }), put.lookAtMs + restMs)
  }

  /** True where another machine stored a later version under the name: it may have deleted this one for that. */
  #isReplaced(put: PutIntent, records: readonly BagRecord[]): boolean {
    const { uploadedAtMs: sinceMs } = put
    if (sinceMs === undefined) return false
    const intents = this.#deps.outbox.intents()
    return records.some(
      ({ name, bagId, uploadedAtMs }) =>
        listedAs(name, put) !== undefined &&
        uploadedAtMs > sinceMs &&
        !isOfOther(intents, put, bagId),
    )
  }

  async #update(put: PutIntent, change: (latest: PutIntent) => PutIntent): Promise<PutIntent> {
    const updated = await this.#deps.outbox.update(put.id, ofPut(change), this.#settings)
    return updated?.kind === 'put' ? updated : put
  }
}
