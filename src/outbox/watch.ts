import { listedAs } from '../domain/folder-names.ts'
import type { BagRecord } from '../domain/record.ts'
import type { IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { claimsOfBefore, isSuperseded, isWatched } from '../intents/rules.ts'
import { ofPut, seenUploaded, takenAway, unwatched, watched } from '../intents/transitions.ts'
import { latestUpload } from './latest-upload.ts'
import type { KnownRecords, UploaderDeps, UploaderSettings } from './ports.ts'

type WatchDeps = Pick<UploaderDeps, 'listing' | 'outbox' | 'clock'>

type RiskSettings = Pick<UploaderSettings, 'deletingMs' | 'listingLagMs' | 'durable'>

/** A service that never lists what it gave an id again gets it no more often than this. */
const MOST_TAKEN = 3

/** Between two looks. */
const SHORTEST_MS = 500

/**
 * So long a bag that had its id before may be taken by a DELETE from then, in ms. What was stored is listed to the machine
 * that deletes, and what was deleted is listed no more, a lag later each.
 */
export function riskMs({ deletingMs, listingLagMs }: RiskSettings): number {
  return deletingMs + 2 * listingLagMs
}

/** Sees to bags that had their ids before: a DELETE names a bag by its id, and one from before may come late. */
export class Watch {
  readonly #deps: WatchDeps
  readonly #settings: RiskSettings
  /** When the bags of puts were uploaded before; removed once the put is forgotten. */
  readonly #beforeMs = new Map<IntentId, number>()

  constructor(deps: WatchDeps, settings: RiskSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /**
   * Where such a DELETE is known to be likely: resolves when it cannot come any more, or when another change takes the
   * place of the put. The bag is not needed then.
   */
  async untilSafe({ id, answeredAtMs = 0 }: PutIntent, signal: AbortSignal): Promise<void> {
    const { clock, outbox } = this.#deps
    const longestMs = riskMs(this.#settings)
    const restMs = answeredAtMs + longestMs - clock.now()
    const superseded = new AbortController()
    const end = outbox.onChange((_before, after) => {
      if (after?.supersedes.includes(id) === true) superseded.abort()
    })
    try {
      if (isSuperseded(outbox, id)) return
      const either = AbortSignal.any([signal, superseded.signal])
      await clock.sleep(Math.min(Math.max(restMs, 0), longestMs), either)
    } catch (error) {
      if (!superseded.signal.aborted) throw error
    } finally {
      end()
    }
  }

  /** Where none is known of: a put that was just confirmed is looked at until none can come. `beforeMs` as `knownUpload` has it. */
  begin(put: PutIntent, beforeMs: number): PutIntent {
    // A folder goes on to its next round, which is made to this bag.
    if (put.isFolder === true || (put.timesTaken ?? 0) >= MOST_TAKEN) return put
    const { outbox, clock } = this.#deps
    for (const id of this.#beforeMs.keys()) {
      if (outbox.get(id) === undefined) this.#beforeMs.delete(id)
    }
    this.#beforeMs.set(put.id, beforeMs)
    return watched(put, clock.now())
  }

  /** Looks when it is time. Answers the put as it is then; one that waits again has lost its bag. Rejects without a listing. */
  async look(put: PutIntent, signal: AbortSignal): Promise<PutIntent> {
    const { listing, clock } = this.#deps
    if (!isWatched(put) || clock.now() < put.lookAtMs) return put
    const current = listing.current()
    const isNewer = current !== undefined && current.startedAtMs >= put.lookAtMs
    const found = isNewer ? current : await listing.refreshNow(signal)
    return this.#update(put, (latest) => this.#judge(latest, found))
  }

  /** A change of here that takes the place of the bag deletes it, and is not forgotten while the put is watched. */
  #judge(put: PutIntent, listing: KnownRecords): PutIntent {
    if (!isWatched(put) || put.bagId === undefined) return put
    const { bagId } = put
    if (claimsOfBefore(this.#deps.outbox, put, bagId).length > 0) return unwatched(put)
    const { listingLagMs } = this.#settings
    const nowMs = this.#deps.clock.now()
    const sinceMs = nowMs - (put.answeredAtMs ?? 0)
    const again = watched(put, nowMs + Math.max(listingLagMs, SHORTEST_MS))
    const records = listing.index.recordsOf(bagId)
    if (records.length > 0) {
      if (sinceMs >= riskMs(this.#settings)) return unwatched(put)
      const atMs = latestUpload(records)
      // A listing that lags may have the bag as it was before.
      const isNew = atMs > (this.#beforeMs.get(put.id) ?? Infinity)
      return isNew ? seenUploaded(again, { bagId, atMs }) : again
    }
    if (sinceMs < listingLagMs) return again
    return isReplaced(put, listing.records) ? unwatched(put) : takenAway(put)
  }

  async #update(put: PutIntent, change: (latest: PutIntent) => PutIntent): Promise<PutIntent> {
    const updated = await this.#deps.outbox.update(put.id, ofPut(change), this.#settings)
    return updated?.kind === 'put' ? updated : put
  }
}

/** True where a later version was stored under the name: the bag may have been deleted for that. */
function isReplaced(put: PutIntent, records: readonly BagRecord[]): boolean {
  const { uploadedAtMs: sinceMs } = put
  if (sinceMs === undefined) return false
  return records.some(
    ({ name, uploadedAtMs }) => uploadedAtMs > sinceMs && listedAs(name, put) !== undefined,
  )
}
