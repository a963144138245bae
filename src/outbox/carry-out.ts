import { rm } from 'node:fs/promises'
import { keptOf } from '../domain/attributes.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { PutIntent } from '../intents/intent.ts'
import { isAnswered, isSuperseded, isTaken, isWatched } from '../intents/rules.ts'
import { packed, unpacked } from '../intents/rounds.ts'
import { answered, confirmed, disproven, sent, staged, unanswered } from '../intents/transitions.ts'
import { refuseWithoutRoom } from './account-room.ts'
import { BagDeletes } from './bag-deletes.ts'
import { Finish } from './finish.ts'
import { Handover } from './handover.ts'
import { findSent } from './lost-answer.ts'
import { idOfNoBag, lookForBag, refuseDisproven, takenByLateDelete } from './proof.ts'
import { send, type Sent } from './send.ts'
import { Staging } from './staging.ts'
import { updatePut } from './update-put.ts'
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
  readonly #finish: Finish
  readonly #staging: Staging

  constructor(deps: UploaderDeps, settings: UploaderSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#bags = new BagDeletes(deps, settings, this.#names)
    this.#handover = new Handover(deps, settings)
    this.#finish = new Finish(deps, settings, { bags: this.#bags, handover: this.#handover })
    this.#staging = new Staging(deps)
    this.#watch = new Watch(deps, settings)
  }

  /** Rejects with the DriveError of the step that failed. */
  async run(attempt: Try): Promise<void> {
    const intent = this.#deps.outbox.get(attempt.id)
    try {
      if (intent?.kind === 'put') await this.#put(intent, attempt)
      else if (intent?.kind === 'delete') await this.#finish.delete(intent, attempt.signal)
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
    if (!isWatched(proven)) await this.#staging.giveToCache(proven)
    await this.#finish.put(proven, attempt.signal)
    if (isWatched(proven)) await this.#lookAt(proven.id, attempt.signal)
  }

  /** What is watched no more goes to the cache. */
  async #lookAt(id: IntentId, signal: AbortSignal): Promise<void> {
    const put = this.#deps.outbox.put(id)
    if (put === undefined || !isWatched(put)) return
    const kept = await this.#watch.look(put, signal)
    if (!isTaken(kept)) throw takenByLateDelete(kept)
    if (!isWatched(kept)) await this.#staging.giveToCache(kept)
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
    const { signal, mayHaveArrived } = attempt
    const found = mayHaveArrived ? await this.#confirmSent(put, this.#settings, signal) : undefined
    if (found !== undefined) return found
    refuseDisproven(put)
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
      if (!(await this.#staging.isKept(put))) return this.#packAnew(put, attempt)
      if (await this.#staging.isWhole(put)) return put
      if (put.isFolder === true && put.changes !== undefined) return this.#packAnew(put, attempt)
      throw lostToPowerCut(put)
    }
    if (put.content.from === 'folder') return this.#packFolder(put, attempt)
    const { length, sha256 } = await this.#staging.fetch(put, put.content.bagId, attempt.signal)
    return this.#updatePut(put, (latest) => staged(latest, length, sha256))
  }

  /** What is in such a zip is known by its sum; when the service does not have it, the folder is packed again. */
  async #packAnew(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    const { signal, mayHaveArrived } = attempt
    const found = mayHaveArrived ? await this.#confirmSent(put, this.#settings, signal) : undefined
    if (found !== undefined) return found
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

  /** Looks for a put whose answer was lost, for as long as a listing may lag. Undefined for one that is not there. */
  async #confirmSent(
    put: PutIntent,
    lag: Pick<UploaderSettings, 'listingLagMs'>,
    signal: AbortSignal,
  ): Promise<PutIntent | undefined> {
    const found = await findSent(this.#deps, lag, put, signal)
    if (found === undefined) return undefined
    const { bagId } = found
    // It may be a bag that was there before as well.
    const isKnown = this.#deps.facts.get(bagId) !== undefined
    const latest = await this.#confirm(put, bagId, isKnown ? Infinity : undefined)
    return isTaken(latest) ? latest : undefined
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

  /** Asks one listing for a put whose answer was lost; true when it is there, and confirmed. */
  async confirmFound(put: PutIntent, signal: AbortSignal): Promise<boolean> {
    return (await this.#confirmSent(put, { listingLagMs: 0 }, signal)) !== undefined
  }

  /** See `Handover.run`. */
  async handOver(put: PutIntent, successor: IntentId): Promise<void> {
    await this.#handover.run(put, successor)
  }

  #updatePut(put: PutIntent, change: (latest: PutIntent) => PutIntent): Promise<PutIntent> {
    return updatePut(this.#deps, this.#settings, put, change)
  }

  #step(step: Step): void {
    this.#deps.onStep?.(step)
  }
}

/** Nothing of it is sent, and what is stored stays. */
function lostToPowerCut({ name }: PutIntent): DriveError {
  return new DriveError(
    'not-found',
    `The content of "${name}" was not on the disk yet when the power went: it is lost, and what was stored stays.`,
    { hint: 'bagfs outbox discard forgets the change; bagfs outbox save gets what is left of it.' },
  )
}
