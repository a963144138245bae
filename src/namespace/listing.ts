import { makeClosing } from '../domain/closing.ts'
import { backoffMs } from '../domain/backoff.ts'
import type { Clock } from '../domain/clock.ts'
import {
  canPass,
  DriveError,
  driveCloses,
  isDriveError,
  type DriveErrorCode,
} from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { StorageService } from '../service/storage-service.ts'
import type { BagRecord } from '../domain/record.ts'
import { inTurns } from '../domain/turns.ts'
import { untilAborted } from '../domain/until-aborted.ts'
import type { ListingAnswer } from '../state/listing-store.ts'
import { ListingIndex, type KindOf } from './listing-index.ts'
import { compareRecords } from './same-records.ts'
import { SavedListing, type ListingKeeper } from './saved-listing.ts'

/** One answer of the service. Snapshots with the same records share `records` and `index`. */
export interface ListingSnapshot extends ListingAnswer {
  readonly index: ListingIndex
}

interface ListingDeps {
  readonly service: Pick<StorageService, 'listFiles'>
  readonly clock: Clock
  readonly log: Logger
  readonly store: ListingKeeper
  /** Kinds known when a listing arrives; call `reindex` whenever one is learned. */
  readonly kindOf?: KindOf
}

interface ListingSettings {
  /** How old an answer may be before callers wait for a new one. */
  readonly ttlMs: number
  /** How long callers wait, all in all, for one refresh while there is an old answer. */
  readonly waitMs: number
}

/** What `status` tells of the listing. */
export interface ListingStatus {
  /** Undefined when there is no listing yet. */
  readonly ageMs: number | undefined
  readonly records: number
  /** Why the last request failed; gone with the next answer. */
  readonly lastError?: {
    readonly code: DriveErrorCode
    readonly message: string
    readonly atMs: number
  }
}

/** `only` is the one bag whose name may have changed; without it any may have. */
export type ListingListener = (snapshot: ListingSnapshot, only?: BagId) => void

interface Request {
  readonly answer: Promise<ListingSnapshot>
  /** When callers with an old answer stop waiting; set by the first of them. */
  patienceEndsAtMs?: number
}

interface RequestFailure {
  readonly error: DriveError
  readonly atMs: number
  /** How many requests failed in a row. */
  readonly times: number
}

/** A step is the work on one record. */
const STEPS_PER_LOOK = 64
const PAUSE = { firstMs: 1_000, longestMs: 30_000 }

/**
 * The listing and its freshness: one request in flight at most, and only when a caller needs the
 * listing. While the service fails, callers go on with the last answer, also with that of the last
 * mount.
 */
export class Listing {
  readonly #deps: ListingDeps
  readonly #settings: ListingSettings
  readonly #saved: SavedListing
  readonly #listeners = new Set<ListingListener>()
  readonly #closing = makeClosing()
  #snapshot: ListingSnapshot | undefined
  #request: Request | undefined
  #next: Promise<ListingSnapshot> | undefined
  #failure: RequestFailure | undefined
  /** What is being made for the next snapshot. */
  #nextIndex: ListingIndex | undefined

  private constructor(deps: ListingDeps, settings: ListingSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#saved = new SavedListing(deps)
  }

  /** Begins with the listing that an earlier process saved, however old. */
  static async open(deps: ListingDeps, settings: ListingSettings): Promise<Listing> {
    const listing = new Listing(deps, settings)
    const saved = await listing.#saved.load()
    if (saved !== undefined) {
      listing.#begin({ ...saved, index: await listing.#indexOf(saved.records) })
    }
    return listing
  }

  /** How old an answer may be before callers wait for a new one, in ms. */
  get ttlMs(): number {
    return this.#settings.ttlMs
  }

  current(): ListingSnapshot | undefined {
    return this.#snapshot
  }

  /** Sizes in bytes that the last listing tells of a bag: one for each of its records that has any. */
  sizesOf(bagId: BagId): readonly number[] {
    const records = this.#snapshot?.index.recordsOf(bagId) ?? []
    return records.flatMap(({ size }) => (size === undefined ? [] : [size]))
  }

  /**
   * A listing no older than the time to live, if the service tells it in time; else the old one.
   * Rejects only when there is none at all, with the error of the request, or when `signal` is
   * aborted (`interrupted`).
   */
  async fresh(signal?: AbortSignal): Promise<ListingSnapshot> {
    this.#refuse(signal)
    const snapshot = this.#snapshot
    if (snapshot === undefined) return this.#first(signal)
    const now = this.freshNow()
    if (now !== undefined) return now
    await this.#waitBriefly(this.#ask(), signal)
    return this.#snapshot ?? snapshot
  }

  /** As `fresh`, when that needs no waiting; else undefined. */
  freshNow(): ListingSnapshot | undefined {
    const snapshot = this.#snapshot
    if (snapshot === undefined || this.#closing.signal.aborted) return undefined
    const age = this.#ageOf(snapshot)
    if (age <= this.#settings.ttlMs / 2 || this.#isPausing()) return snapshot
    this.#ask()
    return age <= this.#settings.ttlMs ? snapshot : undefined
  }

  /** As `fresh`, with a listing that is no older than `ageMs` in place of the time to live. */
  async youngerThan(ageMs: number, signal?: AbortSignal): Promise<ListingSnapshot> {
    const snapshot = await this.fresh(signal)
    if (this.#ageOf(snapshot) <= ageMs || this.#isPausing()) return snapshot
    await this.#waitBriefly(this.#ask(), signal)
    return this.#snapshot ?? snapshot
  }

  /**
   * Asks anew: the answer was begun after this call. Rejects with the error of the request. Callers
   * at the same time share one; it goes out also during the pause after a failure.
   */
  async refreshNow(signal?: AbortSignal): Promise<ListingSnapshot> {
    this.#refuse(signal)
    this.#next ??= this.#askAfterCurrent()
    return untilAborted(this.#next, signal, interruption)
  }

  /** To be called when something was learned of a bag: its kind may change a name. */
  reindex(bagId: BagId): void {
    this.#nextIndex?.learnKind(bagId)
    if (this.#snapshot?.index.learnKind(bagId) !== true) return
    this.#snapshot = { ...this.#snapshot }
    this.#tell(this.#snapshot, bagId)
  }

  /** Calls `listener` when records or their names differ from before; returns the function that ends this. */
  onChange(listener: ListingListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** True once a mount after a kill would begin with the records of now. */
  keep(): Promise<boolean> {
    return this.#saved.keep()
  }

  status(): ListingStatus {
    const snapshot = this.#snapshot
    const ageMs = snapshot === undefined ? undefined : this.#ageOf(snapshot)
    const records = snapshot?.records.length ?? 0
    if (this.#failure === undefined) return { ageMs, records }
    const { error, atMs } = this.#failure
    return { ageMs, records, lastError: { code: error.code, message: error.message, atMs } }
  }

  /** Gives up the request in flight and keeps the last answer for the next mount. */
  async close(): Promise<void> {
    this.#listeners.clear()
    this.#closing.abort(driveCloses())
    await this.#request?.answer.catch(ignoreOutcome)
    await this.#saved.close()
  }

  /** Nothing to go on with: waits for the request's own end, unless one failed a moment ago. */
  async #first(signal: AbortSignal | undefined): Promise<ListingSnapshot> {
    if (this.#failure !== undefined && this.#request === undefined && this.#isPausing()) {
      throw this.#failure.error
    }
    return untilAborted(this.#ask().answer, signal, interruption)
  }

  /** All callers together wait for one request no longer than `waitMs`, or `ls -l` would wait per file. */
  async #waitBriefly(request: Request, signal: AbortSignal | undefined): Promise<void> {
    const { clock } = this.#deps
    const { waitMs } = this.#settings
    request.patienceEndsAtMs ??= clock.now() + waitMs
    // A clock that was set back must not make callers wait longer.
    const leftMs = Math.min(request.patienceEndsAtMs - clock.now(), waitMs)
    if (leftMs <= 0) return
    let cancel = (): void => undefined
    const enough = new Promise<void>((resolve) => {
      cancel = clock.after(leftMs, resolve)
    })
    try {
      await untilAborted(
        Promise.race([request.answer.then(ignoreOutcome, ignoreOutcome), enough]),
        signal,
        interruption,
      )
    } finally {
      cancel()
    }
  }

  #ask(): Request {
    if (this.#request !== undefined) return this.#request
    const request = { answer: this.#list() }
    request.answer.catch(ignoreOutcome)
    this.#request = request
    return request
  }

  async #askAfterCurrent(): Promise<ListingSnapshot> {
    await this.#request?.answer.catch(ignoreOutcome)
    this.#next = undefined
    this.#refuse(undefined)
    return this.#ask().answer
  }

  async #list(): Promise<ListingSnapshot> {
    const { service, clock } = this.#deps
    const startedAtMs = clock.now()
    try {
      const records = await service.listFiles({ signal: this.#closing.signal })
      return await this.#take({ records, startedAtMs, receivedAtMs: clock.now() })
    } catch (error) {
      throw this.#noteFailure(error)
    } finally {
      this.#request = undefined
    }
  }

  /** An answer that says the same again keeps the index, and only renews its time. */
  async #take(answer: ListingAnswer): Promise<ListingSnapshot> {
    const before = this.#snapshot
    const known =
      before !== undefined && (await isSame(before, answer.records)) ? before : undefined
    const { records } = known ?? answer
    const index = known?.index ?? (await this.#indexOf(records))
    this.#closing.signal.throwIfAborted()
    this.#failure = undefined
    const snapshot: ListingSnapshot = { ...answer, records, index }
    this.#begin(snapshot)
    this.#saved.note(snapshot, known === undefined)
    if (known === undefined) this.#tell(snapshot)
    return snapshot
  }

  /** The index that was being made is that of the snapshot from here on: nothing is learned in between. */
  #begin(snapshot: ListingSnapshot): void {
    this.#snapshot = snapshot
    this.#nextIndex = undefined
  }

  async #indexOf(records: readonly BagRecord[]): Promise<ListingIndex> {
    const index = new ListingIndex(this.#deps.kindOf ?? (() => undefined))
    this.#nextIndex = index
    await inTurns(index.add(records), STEPS_PER_LOOK)
    return index
  }

  #noteFailure(cause: unknown): DriveError {
    const words = cause instanceof Error ? cause.message : String(cause)
    const error = isDriveError(cause) ? cause : new DriveError('bad-answer', words, { cause })
    if (this.#closing.signal.aborted) return error
    const times = (this.#failure?.times ?? 0) + 1
    this.#failure = { error, atMs: this.#deps.clock.now(), times }
    const fields = { code: error.code, times }
    const message = `The listing is not to be had: ${error.message}`
    if (times === 1 || !canPass(error)) this.#deps.log.warn(fields, message)
    else this.#deps.log.debug(fields, message)
    return error
  }

  #tell(snapshot: ListingSnapshot, only?: BagId): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(snapshot, only)
      } catch (error) {
        this.#deps.log.error({ error: String(error) }, 'A listener of the listing failed.')
      }
    }
  }

  /** After a failure the service is left alone for a while that doubles, or as long as it asked. */
  #isPausing(): boolean {
    if (this.#failure === undefined) return false
    const { atMs, times, error } = this.#failure
    const pauseMs = backoffMs(times - 1, PAUSE)
    const passedMs = this.#deps.clock.now() - atMs
    return passedMs >= 0 && passedMs < Math.max(pauseMs, error.facts.retryAfterMs ?? 0)
  }

  /**
   * Counted from the answer, or a service that takes longer than the time to live would be asked
   * without a pause. A clock that was set back makes an answer as old as can be.
   */
  #ageOf({ receivedAtMs }: ListingSnapshot): number {
    const age = this.#deps.clock.now() - receivedAtMs
    return age < 0 ? Infinity : age
  }

  #refuse(signal: AbortSignal | undefined): void {
    this.#closing.signal.throwIfAborted()
    if (signal?.aborted === true) throw interruption(signal)
  }
}

function isSame(before: ListingSnapshot, records: readonly BagRecord[]): Promise<boolean> {
  return inTurns(compareRecords(before.records, before.index, records), STEPS_PER_LOOK)
}

function interruption({ reason }: AbortSignal): DriveError {
  if (isDriveError(reason)) return reason
  return new DriveError('interrupted', 'The wait for the listing was given up.')
}

/** For waits on a request: `#list` has handled its outcome already. */
function ignoreOutcome(): void {
  return undefined
}
