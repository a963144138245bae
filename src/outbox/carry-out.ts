import { rename, rm, stat } from 'node:fs/promises'
import { keptOf } from '../domain/attributes.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { BagTime, DeleteIntent, Intent, PutIntent } from '../intents/intent.ts'
import { refuseWithoutRoom } from './account-room.ts'
import { BagDeletes } from './bag-deletes.ts'
import { Handover } from './handover.ts'
import { copyIfThere } from '../disk/copy-if-there.ts'
import { ifThere, isThere } from '../disk/if-there.ts'
import { sha256OfFile } from '../disk/file-hash.ts'
import { findSent } from './lost-answer.ts'
import {
  isAllOf,
  isAnswered,
  isLostOnItsWay,
  isSuperseded,
  isTaken,
  isWatched,
  mayDelete,
} from '../intents/rules.ts'
import {
  answered,
  confirmed,
  deleted,
  disproven,
  movesStored,
  ofPut,
  packed,
  replacedDeleted,
  sent,
  staged,
  unanswered,
  unpacked,
  withDeleted,
} from '../intents/transitions.ts'
import { idOfNoBag, lookForBag, refuseDisproven, takenByLateDelete } from './proof.ts'
import { send, type Sent } from './send.ts'
import { Watch } from './watch.ts'
import type { Try, UploaderDeps, UploaderSettings } from './ports.ts'
import type { Step } from './steps.ts'

/**
 * Carries out one intent. Each step is written down before the next begins and can be repeated, so
 * a kill between any two steps loses nothing. New content is confirmed first, and old bags go last.
 */
export class CarryOut {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  /**
   * By name at the service. Equal content under an equal name may be given an equal bag id. So the
   * DELETE of a bag must not overtake an upload that is about to be given its id.
   */
  readonly #names = new KeyedLock<string>()
  readonly #bags: BagDeletes
  readonly #watch: Watch
  /** Ids that were answered to uploads which are not confirmed yet; `run` removes them. */
  readonly #answered = new Map<BagId, IntentId>()
  readonly #handover: Handover

  constructor(deps: UploaderDeps, settings: UploaderSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#bags = new BagDeletes(deps, settings, this.#names)
    this.#handover = new Handover(deps, settings)
    this.#watch = new Watch(deps, settings)
  }

  /** Rejects with the DriveError of the step that failed. */
  async run(attempt: Try): Promise<void> {
    const intent = this.#deps.outbox.get(attempt.id)
    try {
      if (intent?.kind === 'put') await this.#put(intent, attempt)
      else if (intent?.kind === 'delete') await this.#delete(intent, attempt)
    } finally {
      for (const [bagId, id] of this.#answered) if (id === attempt.id) this.#answered.delete(bagId)
    }
    attempt.onConfirmed()
  }

  async #put(intent: PutIntent, attempt: Try): Promise<void> {
    let put = intent
    if (!isTaken(put)) {
      const ready = await this.#stageContent(put, attempt)
      if (ready === undefined) return
      put = isTaken(ready) ? ready : await this.#send(ready, attempt)
    }
    attempt.onConfirmed()
    if (isAnswered(put) && put.isAtRisk === true) {
      attempt.onResting()
      await this.#watch.untilSafe(put, attempt.signal)
      if (isSuperseded(this.#deps.outbox, put.id)) return
    }
    const proven = await this.prove(put, attempt.signal)
    if (proven === undefined) {
      attempt.onAnswerLost()
      throw idOfNoBag(put)
    }
    attempt.onResting()
    // What is given away, or deleted, must not be what a power cut brings back as not sent.
    await this.#deps.outbox.sync.passed(attempt.signal)
    if (!isWatched(proven)) await this.#giveToCache(proven)
    await this.#deleteReplaced(proven, attempt.signal)
    if (isWatched(proven)) await this.#lookAt(proven.id, attempt.signal)
  }

  /** What is watched no more goes to the cache. */
  async #lookAt(id: IntentId, signal: AbortSignal): Promise<void> {
    const put = this.#deps.outbox.put(id)
    if (put === undefined || !isWatched(put)) return
    const kept = await this.#watch.look(put, signal)
    if (!isTaken(kept)) throw takenByLateDelete(kept)
    if (!isWatched(kept)) await this.#giveToCache(kept)
  }

  /**
   * Confirms a put whose bag is there. Undefined when it is not: then the put waits to be sent again. Until this
   * is known the content stays in the outbox, and nothing is learned of the bag.
   */
  async prove(put: PutIntent, signal: AbortSignal): Promise<PutIntent | undefined> {
    if (!isAnswered(put)) return put
    this.#step('proof.begin')
    const found = await lookForBag(this.#deps, put, put.bagId, signal)
    if (found === 'ours') {
      const latest = await this.#confirm(put, put.bagId)
      return isTaken(latest) ? latest : undefined
    }
    await this.#updatePut(put, found === 'other' ? disproven : unanswered)
    return undefined
  }

  /** A rename may have been written since the try began; one that comes later makes a put of its own. */
  async #send(put: PutIntent, attempt: Try): Promise<PutIntent> {
    for (let latest = put; ;) {
      const { name } = latest
      const before = latest
      latest = await this.#names.run(name, () => this.#sendAs(before, attempt))
      if (isTaken(latest)) return latest
    }
  }

  /** Answers the put as it is now, not sent, when it has got another name. */
  async #sendAs(put: PutIntent, attempt: Try): Promise<PutIntent> {
    const found = attempt.mayHaveArrived
      ? await findSent(this.#deps, this.#settings, put, attempt.signal)
      : undefined
    if (found !== undefined) {
      const latest = await this.#confirmSent(put, found)
      if (isTaken(latest)) return latest
    }
    refuseDisproven(put)
    const { signal } = attempt
    if (put.content.from === 'staged') {
      await refuseWithoutRoom(this.#deps, put, { length: put.content.length, signal })
    }
    const sending = await this.#updatePut(put, (latest) => sent(latest, this.#deps.clock.now()))
    if (sending.name !== put.name) return sending
    if (sending.content.from !== 'staged') throw new DriveError('invalid', 'Nothing is staged.')
    const { length } = sending.content
    const path = this.#deps.outbox.contentPath(put.id)
    return this.#upload(sending, { path, length }, attempt)
  }

  /**
   * A renamed bag has its content at the service: fetches it, to be sent under the new name. A folder is
   * packed; one whose zip went straight to the service is confirmed already.
   */
  async #stageContent(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    if (put.content.from === 'staged') {
      if (!(await this.#isKept(put))) return this.#packAnew(put, attempt)
      if (await this.#isWhole(put)) return put
      if (put.isFolder === true && put.changes !== undefined) return this.#packAnew(put, attempt)
      throw lostToPowerCut(put)
    }
    if (put.content.from === 'folder') return this.#packFolder(put, attempt)
    const { signal } = attempt
    const path = this.#deps.outbox.contentPath(put.id)
    const partial = `${path}.partial`
    await rm(partial, { force: true })
    const length = await this.#fetch(put.content.bagId, partial, signal)
    const known = this.#deps.facts.get(put.content.bagId)?.sha256
    const sha256 = known ?? (await sha256OfFile(partial, signal))
    this.#step('stage.fetched')
    await rename(partial, path)
    this.#step('stage.placed')
    return this.#updatePut(put, (latest) => staged(latest, length, sha256))
  }

  /**
   * Content that another machine deleted at the service, and that is not in the cache, does not
   * come back by itself.
   */
  async #fetch(bagId: BagId, path: string, signal: AbortSignal): Promise<number> {
    const { outbox, content } = this.#deps
    const staged = outbox.stagedAs(bagId)
    const what = 'Staged content cannot be copied'
    if (staged !== undefined && (await copyIfThere(staged, path, what))) {
      return (await stat(path)).size
    }
    try {
      return await content.copyTo(bagId, path, { signal })
    } catch (error) {
      if (!isDriveError(error, 'gone')) throw error
      throw new DriveError(
        'not-found',
        'Its content is gone at the service, so it cannot be stored under another name.',
        { cause: error, hint: 'bagfs outbox discard forgets the change.' },
      )
    }
  }

  /** False for the zip of a folder that went straight to the service: this machine had no room for it. */
  async #isKept(put: PutIntent): Promise<boolean> {
    if (put.isFolder !== true || put.changes === undefined) return true
    return isThere(this.#deps.outbox.contentPath(put.id), 'Staged content cannot be read')
  }

  /** False for content that a power cut took before it was on the platter: its place is there, and other bytes in it. */
  async #isWhole({ id, content }: PutIntent): Promise<boolean> {
    const { outbox } = this.#deps
    if (content.from !== 'staged' || !outbox.isUnchecked('content', id)) return true
    const sum = await ifThere(sha256OfFile(outbox.contentPath(id)), 'Staged content cannot be read')
    if (sum !== content.sha256) return false
    outbox.noteWhole('content', id)
    return true
  }

  /** What is in such a zip is known by its sum; when the service does not have it, the folder is packed again. */
  async #packAnew(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    const found = attempt.mayHaveArrived
      ? await findSent(this.#deps, this.#settings, put, attempt.signal)
      : undefined
    if (found !== undefined) {
      const latest = await this.#confirmSent(put, found)
      if (isTaken(latest)) return latest
    }
    return this.#packFolder(await this.#updatePut(put, unpacked), attempt)
  }

  /** Undefined for a folder that nothing is left in: it stays on this machine. */
  async #packFolder(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    // Of a try before: it would be taken for a zip that goes straight, and has the room of the next one.
    await rm(this.#deps.outbox.contentPath(put.id), { force: true })
    if (!this.#deps.outbox.isShort) {
      try {
        return await this.#packStaged(put, attempt)
      } catch (error) {
        if (!isDriveError(error, 'local-disk-full')) throw error
      }
    }
    this.#deps.log.info({ intent: put.id }, 'No room for a zip: it goes straight to the service.')
    return this.#packStraight(put, attempt)
  }

  /** Nothing of the zip is kept. The intent knows its sum before it is sent, and the changes stay until it is stored. */
  async #packStraight(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    const { outbox, folders, clock } = this.#deps
    const path = outbox.contentPath(put.id)
    const zip = await folders.pack(put, path, { signal: attempt.signal, isStraight: true })
    if (zip?.pieces === undefined) return undefined
    const { length, pieces } = zip
    await refuseWithoutRoom(this.#deps, put, { length, signal: attempt.signal })
    this.#step('folder.packed')
    const ready = await this.#updatePut(put, (latest) => sent(packed(latest, zip), clock.now()))
    if (ready.name !== put.name || ready.description !== put.description) {
      throw new DriveError('busy', 'The folder was changed while it was sent.')
    }
    return this.#names.run(put.name, () => this.#upload(ready, { path, length, pieces }, attempt))
  }

  async #packStaged(put: PutIntent, { signal }: Try): Promise<PutIntent | undefined> {
    const { outbox, folders } = this.#deps
    const zip = await folders.pack(put, outbox.contentPath(put.id), { signal })
    if (zip === undefined) return undefined
    this.#step('folder.packed')
    return this.#updatePut(put, (latest) => packed(latest, zip))
  }

  /** True when a folder changed since it was packed: its intent begins another round. */
  async #folderGoesOn(put: PutIntent): Promise<boolean> {
    if (put.isFolder !== true || put.changes === undefined || put.bagId === undefined) return false
    const goesOn = await this.#deps.folders.committed(put, put.bagId)
    this.#step('folder.led')
    return goesOn
  }

  /** What was seen to be there is confirmed. Anything else was answered only, and is to be proven. */
  async #upload(put: PutIntent, what: Sent, attempt: Try): Promise<PutIntent> {
    const { clock } = this.#deps
    const mayHave = (begun: PutIntent): Promise<unknown> =>
      this.#updatePut(begun, (latest) => sent(latest, clock.now()))
    const disprove = (sending: PutIntent): Promise<unknown> => this.#updatePut(sending, disproven)
    const mayBeDeleted = (bagId: BagId): boolean => this.#bags.mayArriveLate(bagId)
    const deps = { ...this.#deps, mayHave, disprove, mayBeDeleted, answered: this.#answered }
    const { isProven, givenBeforeMs, ...bag } = await send(deps, put, what, attempt)
    if (isProven) return this.#confirm(put, bag.bagId, givenBeforeMs)
    return this.#updatePut(put, (latest) => answered(latest, bag, clock.now()))
  }

  /** Answers the put to be sent again when this machine deleted the bag while it was given: content was toggled. */
  async #confirm(put: PutIntent, bagId: BagId, givenBeforeMs?: number): Promise<PutIntent> {
    return this.#handover.give(put, bagId, async () => {
      const isGone = await this.#bags.wasDeleted(bagId, put.sentAtMs ?? 0)
      if (isGone) return this.#updatePut(put, unanswered)
      return this.#writeConfirmed(put, bagId, givenBeforeMs)
    })
  }

  /** One whose answer was lost may be a bag that was there before as well. */
  #confirmSent(put: PutIntent, bagId: BagId): Promise<PutIntent> {
    const isKnown = this.#deps.facts.get(bagId) !== undefined
    return this.#confirm(put, bagId, isKnown ? Infinity : undefined)
  }

  #writeConfirmed(put: PutIntent, bagId: BagId, givenBeforeMs?: number): Promise<PutIntent> {
    return this.#updatePut(put, (latest) => {
      const { content } = put
      if (content.from === 'staged') {
        const { length, sha256, allocated } = content
        const kind = latest.isFolder === true ? 'folder' : 'file'
        // The attributes as they are now: a later change of them finds the bag in the intent.
        this.#deps.facts.learn(bagId, { kind, length, sha256, allocated, ...keptOf(latest) })
      }
      const done = confirmed(latest, bagId, this.#deps.clock.now())
      return givenBeforeMs === undefined ? done : this.#watch.begin(done, givenBeforeMs)
    })
  }

  /** The cache is a convenience: content that it cannot take is simply fetched again later. */
  async #giveToCache(put: PutIntent): Promise<void> {
    if (put.bagId === undefined || put.content.from !== 'staged') return
    const path = this.#deps.outbox.contentPath(put.id)
    this.#step('cache.begin')
    try {
      if (await this.#isWhole(put)) {
        await this.#deps.content.adopt(put.bagId, path, put.content.length)
      } else await rm(path, { force: true })
    } catch (error) {
      this.#deps.log.debug({ bagId: put.bagId, error: String(error) }, 'Not taken into the cache.')
      await rm(path, { force: true })
    }
    this.#step('cache.taken')
  }

  async #deleteReplaced(put: PutIntent, signal: AbortSignal): Promise<void> {
    const { outbox, clock } = this.#deps
    for (;;) {
      const successor = outbox.successorOf(put.id)
      if (successor !== undefined) {
        await this.handOver(put, successor.id)
        return
      }
      const current = outbox.put(put.id)
      if (current === undefined || !isStillLeft(current, put)) return
      const isFree = mayDelete(current, outbox)
      const { gone, error } = await this.#triedToDelete(current, { isFree, signal })
      // However that went: a folder that is renamed, or changed, meanwhile must be of the bag that is stored now.
      if (await this.#folderGoesOn({ ...current, deleted: gone })) return
      if (error !== undefined) throw error
      this.#refuseLost(current)
      // Its bags go once what moved away from it is stored.
      if (!isFree) return
      // More may have been handed over meanwhile, and what a new successor is to delete was left to it.
      const isAll = (latest: PutIntent): boolean =>
        isStillLeft(latest, put) &&
        isAllOf(latest.replaces, current.replaces) &&
        !isSuperseded(outbox, put.id)
      await this.#updatePut(put, (latest) =>
        isAll(latest) ? replacedDeleted(latest, clock.now(), gone) : withDeleted(latest, gone),
      )
    }
  }

  /** What is deleted of what a put takes the place of, and what stands against the rest. */
  async #triedToDelete(
    put: PutIntent,
    { isFree, signal }: { readonly isFree: boolean; readonly signal: AbortSignal },
  ): Promise<{ readonly gone: readonly BagTime[]; readonly error?: Error }> {
    const { deleted: gone = [] } = put
    if (!isFree) return { gone }
    try {
      return { gone: await this.#deleteFor(put, signal) }
    } catch (error) {
      if (signal.aborted || !isDriveError(error)) throw error
      return { gone, error }
    }
  }

  async #deleteFor(put: PutIntent, signal: AbortSignal): Promise<readonly BagTime[]> {
    const { after = [] } = put
    if (after.length > 0) await this.#updatePut(put, (latest) => movesStored(latest, after))
    return this.#bags.delete(put, signal)
  }

  async #delete(intent: DeleteIntent, attempt: Try): Promise<void> {
    const { outbox, clock } = this.#deps
    let current: Intent | undefined = intent
    while (current?.phase === 'waiting' && mayDelete(current, outbox)) {
      const { replaces } = current
      const gone = await this.#bags.delete(current, attempt.signal)
      current = await outbox.update(
        intent.id,
        (latest) =>
          latest.kind === 'delete' && isAllOf(latest.replaces, replaces)
            ? deleted(latest, clock.now(), gone)
            : latest,
        this.#settings,
      )
    }
    if (current?.phase === 'waiting') this.#refuseLost(current)
  }

  /** What moved away may be nowhere but here, and in what the outbox could not read. */
  #refuseLost(intent: Intent): void {
    if (!isLostOnItsWay(intent, this.#deps.outbox)) return
    throw new DriveError(
      'not-found',
      `What was moved away from ${intent.name} is in a damaged change, so the old content stays.`,
      { hint: 'bagfs outbox list tells where that is; bagfs outbox discard forgets this change.' },
    )
  }

  /** Asks one listing for a put whose answer was lost; true when it is there, and confirmed. */
  async confirmFound(put: PutIntent, signal: AbortSignal): Promise<boolean> {
    const found = await findSent(this.#deps, { listingLagMs: 0 }, put, signal)
    return found !== undefined && isTaken(await this.#confirmSent(put, found))
  }

  /** See `Handover.run`. */
  async handOver(put: PutIntent, successor: IntentId): Promise<void> {
    await this.#handover.run(put, successor)
  }

  async #updatePut(put: PutIntent, change: (latest: PutIntent) => PutIntent): Promise<PutIntent> {
    const updated = await this.#deps.outbox.update(put.id, ofPut(change), this.#settings)
    if (updated?.kind !== 'put') throw new DriveError('interrupted', 'The change was taken back.')
    return updated
  }

  #step(step: Step): void {
    this.#deps.onStep?.(step)
  }
}

/**
 * True while a put has bags of before to delete for the bag that it was given. A folder's put may have begun its next round
 * meanwhile, which takes the place of that bag, and is not stored yet.
 */
function isStillLeft(
  { phase, bagId, replacedAreDeleted }: PutIntent,
  confirmed: PutIntent,
): boolean {
  return phase === 'confirmed' && bagId === confirmed.bagId && replacedAreDeleted !== true
}

/** Nothing of it is sent, and what is stored stays. */
function lostToPowerCut({ name }: PutIntent): DriveError {
  return new DriveError(
    'not-found',
    `The content of "${name}" was not on the disk yet when the power went: it is lost, and what was stored stays.`,
    { hint: 'bagfs outbox discard forgets the change; bagfs outbox save gets what is left of it.' },
  )
}
