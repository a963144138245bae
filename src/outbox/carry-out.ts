import { rename, rm } from 'node:fs/promises'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Growth } from '../domain/growth.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { DeletedBag, DeleteIntent, Intent, PutIntent } from '../domain/intent.ts'
import { EarlyUpload } from './early-upload.ts'
import { sha256OfFile } from './hash.ts'
import { findSent } from './lost-answer.ts'
import { withoutFailure } from './schedule.ts'
import type { Try, UploaderDeps, UploaderSettings } from './ports.ts'
import type { Step } from './steps.ts'

/** The file of an upload, and how it grows where it still does. */
interface Sent {
  readonly path: string
  readonly length: number
  readonly growth?: Growth
}

/**
 * Carries out one intent. Each step is written down before the next begins and can be repeated, so a
 * kill between any two steps loses nothing: new content is confirmed first, old bags go last.
 */
export class CarryOut {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  /**
   * By name at the service. Equal content under an equal name may be given an equal bag id, so the
   * DELETE of a bag must not overtake an upload that is about to be given it.
   */
  readonly #names = new KeyedLock<string>()
  /** By both intents of a handover: in a chain of three, the second must not go while the first hands on to it. */
  readonly #handing = new KeyedLock<IntentId>()

  constructor(deps: UploaderDeps, settings: UploaderSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Rejects with the DriveError of the step that failed. */
  async run(attempt: Try): Promise<void> {
    const intent = this.#deps.outbox.get(attempt.id)
    if (intent?.kind === 'put') await this.#put(intent, attempt)
    else if (intent?.kind === 'delete') await this.#delete(intent, attempt)
    attempt.onConfirmed()
  }

  async #put(intent: PutIntent, attempt: Try): Promise<void> {
    let put = intent
    if (put.phase !== 'confirmed') {
      const staged = await this.#stageContent(put, attempt)
      if (staged === undefined) return
      put = staged.phase === 'confirmed' ? staged : await this.#send(staged, attempt)
    }
    attempt.onConfirmed()
    await this.#giveToCache(put)
    await this.#deleteReplaced(put, attempt.signal)
  }

  /** A rename may have been written since the try began; one that comes later makes a put of its own. */
  async #send(put: PutIntent, attempt: Try): Promise<PutIntent> {
    for (let latest = put; ;) {
      const { name } = latest
      const before = latest
      latest = await this.#names.run(name, () => this.#sendAs(before, attempt))
      if (latest.phase === 'confirmed') return latest
    }
  }

  /** Answers the put as it is now, not sent, when it has got another name. */
  async #sendAs(put: PutIntent, attempt: Try): Promise<PutIntent> {
    const found = attempt.mayHaveArrived
      ? await findSent(this.#deps, this.#settings, put, attempt)
      : undefined
    if (found !== undefined) return this.#confirm(put, found)
    const sending = await this.#updatePut(put, { sentAtMs: this.#deps.clock.now() })
    if (sending.name !== put.name) return sending
    if (sending.content.from !== 'staged') throw new DriveError('invalid', 'Nothing is staged.')
    const { length } = sending.content
    const path = this.#deps.outbox.contentPath(put.id)
    return this.#confirm(sending, await this.#upload(sending, { path, length }, attempt))
  }

  /**
   * A renamed bag has its content at the service: fetches it, to be sent under the new name. A folder is
   * packed, and may be confirmed by then.
   */
  async #stageContent(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    if (put.content.from === 'staged') return put
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
    return this.#updatePut(put, { content: { from: 'staged', length, sha256 } })
  }

  /** What somebody deleted at the service, and is not in the cache, does not come back by itself. */
  async #fetch(bagId: BagId, path: string, signal: AbortSignal): Promise<number> {
    try {
      return await this.#deps.content.copyTo(bagId, path, { signal })
    } catch (error) {
      if (!isDriveError(error, 'gone')) throw error
      throw new DriveError(
        'not-found',
        'Its content is gone at the service, so it cannot be stored under another name.',
        { cause: error, hint: 'bagfs outbox discard forgets the change.' },
      )
    }
  }

  /**
   * Undefined for a folder that nothing is left in: it stays on this machine. A zip that can be sent while
   * it is packed is confirmed already, unless that went wrong.
   */
  async #packFolder(put: PutIntent, attempt: Try): Promise<PutIntent | undefined> {
    const early = new EarlyUpload(
      ({ path, length }, growth, released) =>
        this.#names.run(put.name, async () => {
          const bagId = await this.#upload(put, { path, length, growth }, attempt)
          return this.#confirm(await released(), bagId)
        }),
      this.#deps.log,
    )
    try {
      const staged = await this.#pack(put, early, attempt)
      if (staged === undefined) return undefined
      if (isSentAs(staged, put)) return (await early.finish(staged)) ?? staged
      await early.stop(new DriveError('busy', 'The folder was changed while it was sent.'))
      return staged
    } catch (error) {
      await early.stop(error)
      throw error
    }
  }

  async #pack(put: PutIntent, early: EarlyUpload, attempt: Try): Promise<PutIntent | undefined> {
    const { outbox, folders, clock } = this.#deps
    const packed = await folders.pack(put, outbox.contentPath(put.id), {
      signal: attempt.signal,
      onGrowing: (zip) => {
        early.begin(zip)
      },
    })
    if (packed === undefined) return undefined
    this.#step('folder.packed')
    const { length, sha256, operations, mtimeMs } = packed
    const sent = early.isUnderWay ? { sentAtMs: clock.now() } : {}
    return this.#updatePut(put, (latest) => ({
      ...sent,
      mtimeMs,
      content: { from: 'staged', length, sha256 },
      changes: { start: 0, ...latest.changes, packed: operations },
    }))
  }

  /** True when a folder changed since it was packed: its intent begins another round. */
  async #folderGoesOn(put: PutIntent): Promise<boolean> {
    if (put.isFolder !== true || put.changes === undefined || put.bagId === undefined) return false
    const goesOn = await this.#deps.folders.committed(put, put.bagId)
    this.#step('folder.led')
    return goesOn
  }

  async #upload(put: PutIntent, what: Sent, attempt: Try): Promise<BagId> {
    const { service, clock } = this.#deps
    const { path, length, growth } = what
    this.#step('upload.begin')
    try {
      const upload = put.isFolder === true ? service.uploadFolder : service.uploadFile
      const bagId = await upload.call(
        service,
        {
          ...{ path, length },
          ...(growth === undefined ? {} : { growth }),
          name: put.name,
          description: put.description,
        },
        {
          signal: attempt.signal,
          onProgress: (sentBytes) => {
            attempt.onProgress(sentBytes, length)
          },
        },
      )
      this.#step('upload.answered')
      return bagId
    } catch (error) {
      if (isDriveError(error) && error.facts.answerLost === true) {
        attempt.onAnswerLost()
        await this.#updatePut(put, { sentAtMs: clock.now() })
      }
      throw await this.#explain(error, length, attempt.signal)
    }
  }

  /** The service has no status of its own for "full": a refusal is that when the account has no room. */
  async #explain(error: unknown, length: number, signal: AbortSignal): Promise<unknown> {
    // No file is missing: there is nothing at that address that takes uploads.
    if (isDriveError(error, 'gone')) return new DriveError('bad-answer', error.message, error.facts)
    if (!isDriveError(error, 'bad-request', 'too-large')) return error
    try {
      const account = await this.#deps.service.getAccount({ signal })
      if (account.spaceLeft >= length) return error
      return new DriveError('no-space', error.message, {
        ...error.facts,
        cause: error,
        hint: 'Delete something from the account, or get more space.',
      })
    } catch (cause) {
      this.#deps.log.debug(
        { error: String(cause) },
        'The account could not be asked for its space.',
      )
      return error
    }
  }

  async #confirm(put: PutIntent, bagId: BagId): Promise<PutIntent> {
    const { content } = put
    return this.#updatePut(put, ({ isFolder, mode, mtimeMs }) => {
      if (content.from === 'staged') {
        const { length, sha256 } = content
        const kind = isFolder === true ? 'folder' : 'file'
        // Mode and time as they are now: whoever sets them later finds the bag in the intent.
        this.#deps.facts.learn(bagId, { kind, length, sha256, mode, mtimeMs })
      }
      return { bagId, phase: 'confirmed', confirmedAtMs: this.#deps.clock.now() }
    })
  }

  /** The cache is a convenience: content that it cannot take is simply fetched again later. */
  async #giveToCache(put: PutIntent): Promise<void> {
    if (put.bagId === undefined || put.content.from !== 'staged') return
    const path = this.#deps.outbox.contentPath(put.id)
    this.#step('cache.begin')
    try {
      await this.#deps.content.adopt(put.bagId, path, put.content.length)
    } catch (error) {
      this.#deps.log.debug({ bagId: put.bagId, error: String(error) }, 'Not taken into the cache.')
    }
    await rm(path, { force: true })
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
      const current = outbox.get(put.id)
      if (current?.kind !== 'put' || current.replacedAreDeleted === true) return
      const deleted = await this.#deleteBags(current, signal)
      if (await this.#folderGoesOn({ ...current, deleted })) return
      const deletedAtMs = current.replaces.length === 0 ? {} : { confirmedAtMs: clock.now() }
      // More may have been handed over meanwhile.
      await this.#updatePut(put, (latest) =>
        isAllOf(latest.replaces, current.replaces)
          ? { replacedAreDeleted: true, ...deletedAtMs }
          : {},
      )
    }
  }

  async #delete(intent: DeleteIntent, attempt: Try): Promise<void> {
    const { outbox, clock } = this.#deps
    let current: Intent | undefined = intent
    while (current?.phase === 'waiting') {
      const { replaces } = current
      await this.#deleteBags(current, attempt.signal)
      current = await outbox.update(
        intent.id,
        (latest) =>
          isAllOf(latest.replaces, replaces)
            ? withoutFailure({ ...latest, phase: 'confirmed', confirmedAtMs: clock.now() })
            : latest,
        this.#settings,
      )
    }
  }

  /** Answers all that are deleted now, those of before included. */
  async #deleteBags(intent: Intent, signal: AbortSignal): Promise<readonly DeletedBag[]> {
    const own = intent.kind === 'put' ? intent.bagId : undefined
    const deleted = [...(intent.deleted ?? [])]
    for (const bagId of intent.replaces) {
      if (bagId === own || deleted.some((each) => each.bagId === bagId)) continue
      const names = this.#namesOf(bagId, intent)
      const isGone = await this.#names.runAll(names, () => this.#deleteBag(bagId, signal))
      if (isGone) deleted.push({ bagId, atMs: this.#deps.clock.now() })
    }
    return deleted
  }

  /** Deletes what no entry shows; false for a bag that came back under another entry and stays. */
  async #deleteBag(bagId: BagId, signal: AbortSignal): Promise<boolean> {
    if (this.#deps.isShown(bagId) || this.#isSource(bagId)) return false
    this.#step('delete.begin')
    await this.#deps.service.deleteBag(bagId, { signal })
    this.#step('delete.answered')
    this.#deps.log.info({ bagId }, 'Deleted a bag.')
    return true
  }

  /** The names that a bag has at the service, as far as they are known. */
  #namesOf(bagId: BagId, deleter: Intent): readonly string[] {
    const { listing, outbox } = this.#deps
    const listed = listing.current()?.index.recordsOf(bagId) ?? []
    const given = outbox
      .intents()
      .filter((intent) => intent.kind === 'put' && intent.bagId === bagId)
    return [...new Set([...listed, ...given, deleter].map(({ name }) => name))]
  }

  /** True while a rename still has to fetch its content from this bag. */
  #isSource(bagId: BagId): boolean {
    const { outbox } = this.#deps
    return outbox
      .intents()
      .some(
        (intent) =>
          intent.kind === 'put' &&
          intent.content.from === 'bag' &&
          intent.content.bagId === bagId &&
          outbox.successorOf(intent.id) === undefined,
      )
  }

  /**
   * Gives all that is left of a superseded put to its successor, and forgets the put. Rejects
   * `interrupted`, with the put kept, when the successor was taken back meanwhile.
   */
  async handOver(put: PutIntent, successor: IntentId): Promise<void> {
    const { outbox } = this.#deps
    await this.#handing.runAll([put.id, successor], async () => {
      const latest = outbox.get(put.id)
      if (latest?.kind !== 'put') return
      // What was handed to it meanwhile goes along; the bag may be known to the caller only.
      await this.#inherit({ ...put, ...latest }, successor)
      this.#step('handover.inherited')
      await outbox.remove(put.id)
    })
  }

  /**
   * What `put` still has to delete, its own bag included, and the puts that it superseded itself (they
   * would come back without it). A finished successor has then something left to do.
   */
  async #inherit(put: PutIntent, successor: IntentId): Promise<void> {
    const { outbox } = this.#deps
    const own = put.bagId === undefined ? [] : [put.bagId]
    const gone = put.replacedAreDeleted === true ? this.#stillToHide(put) : []
    const bags = [...(put.replacedAreDeleted === true ? gone : put.replaces), ...own]
    const puts = put.supersedes.filter((id) => outbox.get(id) !== undefined)
    const known = outbox.get(successor)
    if (known === undefined) throw new DriveError('interrupted', 'The change was taken back.')
    if (isAllOf(bags, known.replaces) && puts.length === 0) return
    // Equal content can have been given the id of a bag that was deleted before.
    const deleted = [...(put.deleted ?? []), ...this.#asDeleted(put, gone)].filter(
      ({ bagId }) => bagId !== put.bagId,
    )
    const updated = await outbox.update(
      successor,
      (latest) =>
        unfinished({
          ...latest,
          replaces: [...new Set([...latest.replaces, ...bags])],
          supersedes: [...new Set([...latest.supersedes, ...puts])],
          ...(deleted.length > 0 ? { deleted: [...(latest.deleted ?? []), ...deleted] } : {}),
        }),
      this.#settings,
    )
    if (updated === undefined) throw new DriveError('interrupted', 'The change was taken back.')
  }

  /** Bags that `put` has deleted and nobody but its successor will hide: from a listing, or an older put. */
  #stillToHide(put: PutIntent): readonly BagId[] {
    const { outbox, listing, clock } = this.#deps
    const puts = outbox.intents().filter((intent) => intent.kind === 'put')
    const isLate = clock.now() - (put.confirmedAtMs ?? 0) < this.#settings.listingLagMs
    const index = listing.current()?.index
    return put.replaces.filter((bagId) => {
      const given = puts.filter((other) => other.bagId === bagId)
      if (given.some(({ id }) => id >= put.id)) return false
      return given.length > 0 || isLate || (index?.recordsOf(bagId).length ?? 0) > 0
    })
  }

  #asDeleted({ confirmedAtMs, deleted }: PutIntent, bags: readonly BagId[]): readonly DeletedBag[] {
    const atMs = confirmedAtMs ?? this.#deps.clock.now()
    const isNew = (bagId: BagId): boolean => deleted?.some((each) => each.bagId === bagId) !== true
    return bags.filter(isNew).map((bagId) => ({ bagId, atMs }))
  }

  async #updatePut(
    put: PutIntent,
    changes: Partial<PutIntent> | ((latest: PutIntent) => Partial<PutIntent>),
  ): Promise<PutIntent> {
    const change = (latest: PutIntent): PutIntent => ({
      ...latest,
      ...(typeof changes === 'function' ? changes(latest) : changes),
    })
    const updated = await this.#deps.outbox.update(
      put.id,
      (latest) => (latest.kind === 'put' ? withoutFailureWhenConfirmed(change(latest)) : latest),
      this.#settings,
    )
    if (updated?.kind !== 'put') throw new DriveError('interrupted', 'The change was taken back.')
    return updated
  }

  #step(step: Step): void {
    this.#deps.onStep?.(step)
  }
}

/** True when an upload that was begun for `sent` is one of `latest`. */
function isSentAs(latest: PutIntent, sent: PutIntent): boolean {
  return latest.name === sent.name && latest.description === sent.description
}

function isAllOf(some: readonly BagId[], all: readonly BagId[]): boolean {
  return some.every((bagId) => all.includes(bagId))
}

/** The deletes of this intent are to be done (again). */
function unfinished(intent: Intent): Intent {
  if (intent.kind === 'put') {
    const copy: { replacedAreDeleted?: boolean } & PutIntent = { ...intent }
    delete copy.replacedAreDeleted
    return copy
  }
  if (intent.phase !== 'confirmed') return intent
  const copy: { confirmedAtMs?: number } & DeleteIntent = { ...intent, phase: 'waiting' }
  delete copy.confirmedAtMs
  return copy
}

function withoutFailureWhenConfirmed(put: PutIntent): PutIntent {
  return put.phase === 'confirmed' ? withoutFailure(put) : put
}
