import { isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { BagTime, Intent, PutIntent } from '../intents/intent.ts'
import {
  awaitedFor,
  bagsToDelete,
  isAsBase,
  isNeeded,
  isTaken,
  isUnproven,
} from '../intents/rules.ts'
import { inheriting } from '../intents/claims.ts'
import { isNewTo } from '../intents/legacy.ts'
import { ofPut, seenUploaded } from '../intents/transitions.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { DoomedBag } from '../trash/keeper.ts'
import { latestUpload } from './latest-upload.ts'
import { hasGone } from './lost-answer.ts'
import type { KnownListing, UploaderDeps, UploaderSettings } from './ports.ts'
import type { Step } from './steps.ts'
import { riskMs } from './watch.ts'

/** A change that was made longer ago than this is held against a listing that is no older. */
const LATE_MS = 5_000
/** So often a listing is asked while it may lag, also by a clock that was set back. */
const LOOKS = 8

/** Deletes the bags that an intent replaces, but for those that something still needs. */
export class BagDeletes {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  readonly #names: KeyedLock<string>
  readonly #deleting = new KeyedLock<BagId>()
  /** When a deletion ended, however it did. */
  readonly #endedAtMs = new Map<BagId, number>()
  /** When a request was sent that was not answered and may still arrive; removed by the next one that is noted. */
  readonly #unansweredAtMs = new Map<BagId, number>()

  /** `names` are locked by name at the service: no upload under a name runs while a bag of it is deleted. */
  constructor(deps: UploaderDeps, settings: UploaderSettings, names: KeyedLock<string>) {
    this.#deps = deps
    this.#settings = settings
    this.#names = names
    // The process before may have sent it, and was ended before it was answered.
    const begun = deps.outbox.intents().filter(isTakenOrDelete)
    for (const bagId of begun.flatMap(bagsToDelete)) this.#noteLate(bagId)
  }

  /** True while a DELETE that was not answered may still take a bag that is given the id. */
  mayArriveLate(bagId: BagId): boolean {
    return this.#unansweredSinceMs() < (this.#unansweredAtMs.get(bagId) ?? -Infinity)
  }

  #unansweredSinceMs(): number {
    return this.#deps.clock.now() - riskMs(this.#settings)
  }

  #noteLate(bagId: BagId): void {
    for (const [each, atMs] of this.#unansweredAtMs) {
      if (atMs <= this.#unansweredSinceMs()) this.#unansweredAtMs.delete(each)
    }
    this.#unansweredAtMs.set(bagId, this.#deps.clock.now())
  }

  /** Answers all that are deleted now, those of before included. */
  async delete(intent: Intent, signal: AbortSignal): Promise<readonly BagTime[]> {
    const deleted = [...(intent.deleted ?? [])]
    for (const bagId of bagsToDelete(intent)) {
      const deleteBag = (): Promise<boolean> =>
        this.#names.runAll(this.#namesOf(bagId, intent), () =>
          this.#deleteBag(bagId, intent, signal),
        )
      // An upload under the name need not wait for what is fetched.
      const isGone = await (this.#isStaying(bagId)
        ? deleteBag()
        : this.#deps.trash.whileFetched(bagId, signal, deleteBag))
      if (isGone) deleted.push({ bagId, atMs: this.#deps.clock.now() })
    }
    return deleted
  }

  #isStaying(bagId: BagId): boolean {
    return this.#deps.isShown(bagId) || isNeeded(this.#deps.outbox, bagId)
  }

  /** Deletes what no entry shows; false for a bag that came back, here or from another machine, and stays. */
  async #deleteBag(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<boolean> {
    if (this.#deps.isShown(bagId)) return false
    await this.#leaveToOthers(bagId, deleter, signal)
    if (isNeeded(this.#deps.outbox, bagId)) return false
    if (await this.#isStoredAnew(bagId, deleter, signal)) return false
    await this.#noteUploaded(bagId, deleter, signal)
    return this.#deleting.run(bagId, () => this.#send(bagId, deleter, signal))
  }

  /** No listing has the bag from now on: a put that was given it, and has older ones to delete yet, keeps when it was uploaded. */
  async #noteUploaded(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<void> {
    const { outbox } = this.#deps
    const isLeft = (put: Intent): put is PutIntent =>
      put.kind === 'put' && put.bagId === bagId && bagsToDelete(put).length > 0
    const left = outbox.intents().filter(isLeft)
    if (left.length === 0) return
    const known = new Set([deleter, ...left].map(({ id }) => id))
    const atMs = await this.#listedUpload(bagId, signal, {
      answeredAtMs: Math.max(...left.map(({ answeredAtMs = 0 }) => answeredAtMs)),
      isGivenAgain: left.length > 1 || outbox.ofBag(bagId).some(({ id }) => !known.has(id)),
    })
    if (atMs === undefined) return
    const note = ofPut((put) => seenUploaded(put, { bagId, atMs }))
    for (const { id } of left) await outbox.update(id, note, this.#settings)
  }

  /**
   * When a bag was uploaded, as soon as a listing tells it: its lag begins at the answer. Undefined where none tells it. Of an
   * id that was given before, an earlier listing may tell the upload of then.
   */
  async #listedUpload(
    bagId: BagId,
    signal: AbortSignal,
    { answeredAtMs, isGivenAgain }: { answeredAtMs: number; isGivenAgain: boolean },
  ): Promise<number | undefined> {
    const { clock, listing } = this.#deps
    const { listingLagMs } = this.#settings
    for (let looks = 0; ; looks += 1) {
      const { index, startedAtMs } = await listing.refreshNow(signal)
      const records = index.recordsOf(bagId)
      const isSure = startedAtMs >= answeredAtMs + listingLagMs || looks > LOOKS
      if (records.length > 0 && (isSure || !isGivenAgain)) return latestUpload(records)
      if (isSure) return undefined
      await clock.sleep(listingLagMs / LOOKS, signal)
    }
  }

  /** Content that was stored meanwhile and given the id of the bag has made the deleter leave it. */
  async #send(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<boolean> {
    const { outbox, trash, log } = this.#deps
    const isMeant = (): boolean => outbox.get(deleter.id)?.replaces.includes(bagId) === true
    if (!isMeant()) return false
    const doomed = this.#doomed(bagId, deleter)
    const notKept = this.#goesOnElsewhere(bagId, deleter) ? undefined : await trash.keep(doomed)
    // A program may have copied it a moment ago.
    await outbox.sync.completeGiven()
    if (!isMeant()) return false
    this.#step('delete.begin')
    try {
      if (!(await this.#ask(bagId, deleter, signal))) return false
    } finally {
      this.#note(bagId)
    }
    this.#step('delete.answered')
    log.info({ bagId }, 'Deleted a bag.')
    if (notKept !== undefined) trash.noteNotKept(doomed, notKept)
    return true
  }

  /**
   * True when the bag is gone, also when the answer that tells it was lost. False when a request that was not answered may
   * have deleted it, and another machine stored it since.
   */
  async #ask(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<boolean> {
    const { service, listing } = this.#deps
    const wasListed = (listing.current()?.index.recordsOf(bagId).length ?? 0) > 0
    const found = { isAnew: false }
    try {
      await service.deleteBag(bagId, {
        signal,
        onAnswerLost: () => {
          this.#noteLate(bagId)
        },
        mayRepeat: async () => {
          if (!this.mayArriveLate(bagId)) return true
          const isAnew = await this.#isKnownAnew(bagId, deleter, signal)
          found.isAnew = isAnew === true
          return isAnew === false
        },
      })
      return true
    } catch (error) {
      if (found.isAnew) return false
      const isLost = isDriveError(error) && error.facts.answerLost === true
      if (!isLost || !(await hasGone(this.#deps, bagId, { wasListed }, signal))) throw error
      return true
    }
  }

  /**
   * True when this machine deleted a bag since then, or may have: an upload that was under way at that time may have been
   * given the id of the bag before it went. Waits for a deletion that is under way. It is told once, so that a clock that
   * is set back cannot make an upload begin again for ever.
   */
  async wasDeleted(bagId: BagId, sinceMs: number): Promise<boolean> {
    await this.#deleting.run(bagId, () => Promise.resolve())
    const endedAtMs = this.#endedAtMs.get(bagId) ?? -Infinity
    return endedAtMs >= sinceMs && this.#endedAtMs.delete(bagId)
  }

  /** Keeps what an upload can still ask for. */
  #note(bagId: BagId): void {
    const { outbox, clock } = this.#deps
    const sent = outbox.intents().filter(isUnproven)
    const oldestMs = Math.min(...sent.map(({ sentAtMs = 0 }) => sentAtMs))
    for (const [each, atMs] of this.#endedAtMs) {
      if (atMs < oldestMs) this.#endedAtMs.delete(each)
    }
    this.#endedAtMs.set(bagId, clock.now())
  }

  /** A put for which a bag stays deletes it once its own content is stored, and knows then what `deleter` knows of it. */
  async #leaveToOthers(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<void> {
    const { outbox } = this.#deps
    const others = awaitedFor(outbox, bagId).filter(({ id }) => id !== deleter.id)
    if (others.length === 0) return
    const uploaded = await this.#uploadsMeantBy(bagId, deleter, signal)
    // Its own upload begins later than that of the bag ended.
    const none = { puts: [], deleted: [], ownUploads: [], after: [] }
    const legacy = { ...none, bags: [bagId], uploaded }
    for (const { id } of others.filter((put) => isNewTo(put, legacy))) {
      await outbox.update(id, (latest) => inheriting(latest, legacy), this.#settings)
    }
  }

  /**
   * The uploads of a bag that `deleter` is to take away: what is listed now, unless another machine has stored it anew.
   * While a delete that knows of no upload waited for long, another machine may have done that.
   */
  async #uploadsMeantBy(
    bagId: BagId,
    deleter: Intent,
    signal: AbortSignal,
  ): Promise<readonly BagTime[]> {
    const known = deleter.uploaded?.filter((each) => each.bagId === bagId) ?? []
    const isLate = this.#deps.clock.now() - deleter.createdAtMs >= LATE_MS
    if (known.length === 0 && deleter.kind === 'delete' && isLate) return known
    const { index } = await this.#deps.listing.refreshNow(signal)
    if (await this.#isListedAnew(bagId, deleter, signal)) return known
    const records = index.recordsOf(bagId)
    return records.length === 0 ? known : [{ bagId, atMs: latestUpload(records) }]
  }

  /** True when the listing tells of a later upload than the one that `deleter` was made from: the same id, by another machine. */
  async #isStoredAnew(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<boolean> {
    const isAnew = await this.#isListedAnew(bagId, deleter, signal)
    if (isAnew) {
      this.#deps.log.info({ bagId }, 'Another machine stored the same content again: it stays.')
    }
    return isAnew
  }

  /** As `#isStoredAnew`; undefined where the service gives no listing. */
  async #isKnownAnew(
    bagId: BagId,
    deleter: Intent,
    signal: AbortSignal,
  ): Promise<boolean | undefined> {
    try {
      return await this.#isStoredAnew(bagId, deleter, signal)
    } catch (error) {
      const told = { bagId, error: String(error) }
      this.#deps.log.debug(
        told,
        'Whether a bag was stored anew is not known: it is not deleted now.',
      )
      return undefined
    }
  }

  async #isListedAnew(bagId: BagId, deleter: Intent, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#deps
    const known = deleter.uploaded?.filter((each) => each.bagId === bagId) ?? []
    if (known.length === 0 && !isLaterThanReplaced(deleter)) return false
    const times = known.map(({ atMs }) => atMs)
    let listing = await this.#listingFor(bagId, deleter, signal)
    for (let looks = 0; ; looks += 1) {
      const { seenAtMs, isSure } =
        times.length > 0
          ? { seenAtMs: Math.max(...times), isSure: true }
          : this.#latestOf(bagId, this.#deps.outbox.get(deleter.id) ?? deleter, listing)
      const records = listing.index.recordsOf(bagId)
      const isLater = records.some(({ uploadedAtMs }) => uploadedAtMs > seenAtMs)
      if (!isLater || isSure || looks > LOOKS) return isLater
      if (looks > 0) await clock.sleep(this.#settings.listingLagMs / LOOKS, signal)
      listing = await this.#deps.listing.refreshNow(signal)
    }
  }

  /**
   * Until when a bag was stored that was not listed yet when it was replaced: before what took its place. When another
   * machine, and no change of here, did away with that, it may have stored the bag anew. For as long as a listing may lag,
   * it may tell of an upload of before where the service gave an id anew.
   */
  #latestOf(
    bagId: BagId,
    deleter: Intent,
    { index, startedAtMs }: KnownListing,
  ): { readonly seenAtMs: number; readonly isSure: boolean } {
    if (deleter.kind !== 'put' || deleter.bagId === undefined)
      return { seenAtMs: Infinity, isSure: true }
    const { uploadedAtMs, confirmedAtMs = 0 } = deleter
    const laterMs = laterByMs(bagId, deleter)
    if (uploadedAtMs !== undefined) return { seenAtMs: uploadedAtMs + laterMs, isSure: true }
    const isSure = startedAtMs >= confirmedAtMs + this.#settings.listingLagMs
    const records = index.recordsOf(deleter.bagId)
    if (records.length > 0) return { seenAtMs: latestUpload(records) + laterMs, isSure }
    return { seenAtMs: isSure ? -Infinity : Infinity, isSure }
  }

  /**
   * What waited for the service may have been made from a listing of long ago. A request that was not answered may have
   * deleted the bag: only a listing that was asked for since tells what another machine stored since.
   */
  async #listingFor(
    bagId: BagId,
    { createdAtMs }: Intent,
    signal: AbortSignal,
  ): Promise<KnownListing> {
    const { listing, clock } = this.#deps
    const current = listing.current()
    if (current === undefined) return listing.refreshNow(signal)
    const { startedAtMs } = current
    const sentAtMs = this.#unansweredAtMs.get(bagId)
    const isSince = sentAtMs === undefined || startedAtMs > sentAtMs
    const lookedAtMs = sentAtMs === undefined ? Math.max(createdAtMs, startedAtMs) : startedAtMs
    const isFresh = clock.now() - lookedAtMs < LATE_MS
    return isSince && isFresh ? current : listing.refreshNow(signal)
  }

  /** True for a file that is in a folder now, as it was. */
  #goesOnElsewhere(bagId: BagId, { id }: Intent): boolean {
    const latest = this.#deps.outbox.get(id)
    return latest?.kind === 'delete' && latest.movesOn === bagId
  }

  /** What the trash is to know of a bag. */
  #doomed(bagId: BagId, deleter: Intent): DoomedBag {
    const { listing, outbox } = this.#deps
    const [record] = listing.current()?.index.recordsOf(bagId) ?? []
    const put = outbox.ofBag(bagId).find((each) => each.kind === 'put' && each.bagId === bagId)
    const { name, description = '' } = { ...deleter, ...record, ...put }
    const next =
      deleter.kind === 'put' && deleter.content.from === 'staged' ? deleter.content : undefined
    return {
      ...{ bagId, name, description },
      why: deleter.kind === 'delete' ? 'deleted' : 'replaced',
      uploadedAtMs: record?.uploadedAtMs ?? put?.answeredAtMs ?? 0,
      ...(next === undefined ? {} : { next }),
    }
  }

  /** The names that a bag has at the service, as far as they are known. */
  #namesOf(bagId: BagId, deleter: Intent): readonly string[] {
    const { listing, outbox } = this.#deps
    const listed = listing.current()?.index.recordsOf(bagId) ?? []
    const given = outbox
      .ofBag(bagId)
      .filter((intent) => intent.kind === 'put' && intent.bagId === bagId)
    return [...new Set([...listed, ...given, deleter].map(({ name }) => name))]
  }

  #step(step: Step): void {
    this.#deps.onStep?.(step)
  }
}

/**
 * By how much a bag may have been stored later than the one that took its place: both were uploaded here, at the same
 * time. It was stored before it was answered, and the other after that was sent.
 */
function laterByMs(bagId: BagId, { ownUploads = [], sentAtMs = Infinity }: PutIntent): number {
  const own = ownUploads.find((each) => each.bagId === bagId)
  return Math.max(0, (own?.atMs ?? -Infinity) - sentAtMs)
}

/** True when what a change stored is later than the bags that it takes the place of. */
function isLaterThanReplaced(intent: Intent): boolean {
  return intent.kind === 'put' && !isAsBase(intent)
}

function isTakenOrDelete(intent: Intent): boolean {
  return intent.kind === 'delete' || isTaken(intent)
}
