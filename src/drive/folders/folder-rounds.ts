import { link, rm } from 'node:fs/promises'
import type { BagCache } from '../../content/bag-cache.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, fromFileSystem, isDriveError } from '../../domain/errors.ts'
import { listedAs } from '../../domain/folder-names.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { deleteOfEmptied } from '../../intents/builders.ts'
import type { PutIntent } from '../../intents/intent.ts'
import { collecting, emptied, nextRound, unchanged } from '../../intents/rounds.ts'
import { ofPut } from '../../intents/transitions.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { PackedFolder, PackOptions } from '../../outbox/ports.ts'
import type { StepListener } from '../../outbox/steps.ts'
import type { Jobs } from '../../outbox/jobs.ts'
import type { Entries } from '../root/entries.ts'
import type { News } from '../tree/news.ts'
import type { ChangeLog } from './change-log.ts'
import type { Folder, OpenZip } from './folder.ts'
import { pathOfItem } from './items.ts'
import { fileOperation, versionsOf, type LocalContents } from './local-contents.ts'
import {
  areAllUnclosed,
  dropLocal,
  leaveAllOut,
  localOf,
  pack,
  rebaseTree,
  takeSnapshot,
  unclosedOf,
  type Snapshot,
} from './packing.ts'
import type { Salvage } from './salvage.ts'

interface FolderRoundsDeps {
  readonly folder: Folder
  readonly news: News
  readonly changes: ChangeLog
  readonly contents: LocalContents
  readonly salvage: Salvage
  readonly cache: Pick<BagCache, 'confirm'>
  readonly entries: Pick<Entries, 'recordsOf'>
  readonly outbox: Outbox
  readonly jobs: Pick<Jobs, 'kick'>
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
  /** Runs a task while nothing else changes the folder. */
  readonly inTurn: <Result>(task: () => Promise<Result>) => Promise<Result>
}

interface FolderRoundsSettings {
  /** How long a listing may show what is deleted, in ms. */
  readonly listingLagMs: number
}

/**
 * The way of one folder's changes into zips: what is packed, what of it the service has then, and what is left for the
 * next round.
 */
export class FolderRounds {
  readonly #deps: FolderRoundsDeps
  readonly #settings: FolderRoundsSettings
  /** What the zip that is on its way was made of. */
  #snapshot: Snapshot | undefined
  /** Operations written down once more, because the zip that is on its way is without them. */
  #repeated = 0
  /** The base came a second time, and was not the same: the tree may lack what it has. */
  #isMisread = false

  constructor(deps: FolderRoundsDeps, settings: FolderRoundsSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /** A zip of this is on its way: what it was made of stays as it is. */
  hold(snapshot: Snapshot): void {
    this.#release()
    this.#snapshot = snapshot
    for (const content of localOf(snapshot)) content.freeze()
  }

  /**
   * Packs everything into a zip at `path`. Undefined when there is nothing to send: the folder is empty, or as it is stored; the
   * intent says so already.
   */
  async pack(path: string, options: PackOptions): Promise<PackedFolder | undefined> {
    try {
      return await this.#pack(path, options, undefined)
    } catch (error) {
      const { base } = this.#deps.folder
      if (base === undefined) throw error
      if (!(await this.#deps.salvage.isCalledFor(error, base.bagId, options.signal))) throw error
      return this.#pack(path, options, base)
    }
  }

  /** With a base that is `gone`, what is nowhere is left out. */
  async #pack(
    path: string,
    options: PackOptions,
    gone: OpenZip | undefined,
  ): Promise<PackedFolder | undefined> {
    if (gone === undefined) await this.confirmBase(options)
    const taken = await this.#deps.inTurn(() => this.#take())
    if (taken === undefined) return undefined
    const { snapshot, operations, put } = taken
    this.#deps.changes.notePacking()
    try {
      const plan =
        gone === undefined
          ? taken.plan
          : await this.#deps.salvage.planOf(taken.plan, gone, put, options.signal)
      if (plan.length > 0) {
        const packed = await pack(plan, path, options)
        const { mtimeMs, ctimeMs } = this.#deps.folder.top
        return { ...packed, operations, mtimeMs, ctimeMs }
      }
      await this.#deps.inTurn(() => this.#emptyOfLost(put, operations, snapshot))
      return undefined
    } catch (error) {
      if (this.#snapshot === snapshot) this.#release()
      throw error
    }
  }

  /** False once nothing was left in the folder: it was deleted at the service then. */
  get #hasBase(): boolean {
    const put = this.#deps.outbox.put(this.#deps.changes.id)
    return put === undefined || put.changes?.base !== undefined
  }

  /** What is to be packed; undefined when there is nothing to send. */
  async #take() {
    this.#release()
    const put = this.#deps.outbox.put(this.#deps.changes.id)
    if (put === undefined) return undefined
    if (this.#isAsStored(put)) {
      await this.#keepAsStored(put)
      return undefined
    }
    await this.#splitTorn()
    const { plan, snapshot } = takeSnapshot(this.#deps.folder)
    const operations = this.#deps.changes.count
    if (plan.length > 0) this.hold(snapshot)
    await this.#repeatUnclosed()
    if (plan.length > 0) return { plan, snapshot, operations, put }
    await this.#empty(put, operations)
    return undefined
  }

  /** Something made of the tree takes the place of its base: what the tree was made from has to be that. */
  async confirmBase(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { base, node } = this.#deps.folder
    try {
      if (this.#isMisread) throw new DriveError('corrupt', 'Its zip was another one before.')
      if (base !== undefined && this.#hasBase) await this.#deps.cache.confirm(base.reader, options)
    } catch (error) {
      if (!isDriveError(error, 'corrupt')) throw error
      this.#isMisread = true
      throw new DriveError('corrupt', `${node.serviceName} was not read as it is stored.`, {
        cause: error,
        hint: 'Mount again: the drive reads it anew, and your changes are kept.',
      })
    }
  }

  /** What is written in place although it was closed goes into the zip as it was then. */
  async #splitTorn(): Promise<void> {
    const { folder } = this.#deps
    for (const { item } of unclosedOf(folder)) {
      const path = pathOfItem(item, folder.top)
      if (path === undefined) continue
      for (const content of versionsOf(item))
        await this.#deps.contents.splitOff(item, content, path)
    }
    this.#deps.onStep?.('folder.split')
  }

  /**
   * What is in the journal and not closed is not in the zip: it is written down once more, behind what
   * the zip has. A link of another name keeps a start from taking it for what went into the zip.
   */
  async #repeatUnclosed(): Promise<void> {
    this.#repeated = 0
    const { changes, folder } = this.#deps
    // These lines have no sum.
    if (unclosedOf(folder).length > 0) await changes.sync()
    for (const { item, content } of unclosedOf(folder)) {
      const path = pathOfItem(item, folder.top)
      if (!content.journaled || path === undefined) continue
      const again = changes.files.newFile()
      await linkFile(content.path, again.path)
      const { file } = again
      const { length } = content
      changes.repeat(fileOperation(item, { file, length }, path, this.#deps.clock.now()))
      this.#repeated += 1
      this.#deps.onStep?.('folder.repeated')
    }
    if (this.#repeated > 0) await changes.sync()
  }

  #release(): void {
    this.#deps.salvage.end()
    if (this.#snapshot !== undefined) for (const each of localOf(this.#snapshot)) each.thaw()
    this.#snapshot = undefined
  }

  /**
   * The service has the zip as a new bag. What came after it was packed begins the next round; the
   * rest is read from the new bag from now on. True when there is a next round.
   */
  async committed(put: PutIntent, bagId: BagId): Promise<boolean> {
    if (this.#deps.changes.id !== put.id) return false
    this.#deps.changes.noteUploaded()
    return this.#deps.inTurn(async () => {
      await this.#rebase(bagId)
      if (put.restores !== undefined) await rm(this.#deps.outbox.basePath(put.id), { force: true })
      const packed = put.changes?.packed ?? put.changes?.start ?? 0
      const isChanged = this.#deps.changes.count > packed
      if (isChanged || unclosedOf(this.#deps.folder).length > 0) {
        const forgetBeforeMs = this.#deps.clock.now() - this.#settings.listingLagMs
        const zip = { bagId, packed, deleted: put.deleted ?? [], forgetBeforeMs }
        const change = ofPut((latest) => nextRound(latest, zip))
        await this.#deps.outbox.update(put.id, change, { durable: true })
        if (this.#deps.changes.count > packed + this.#repeated) this.#deps.changes.touch()
        return true
      }
      await this.#finish()
      return false
    })
  }

  async #finish(): Promise<void> {
    dropLocal(this.#deps.folder)
    await this.#deps.changes.finish()
  }

  /** A zip that is made as the base was has its id; what the zip was made of is led to it all the same. */
  async #rebase(bagId: BagId): Promise<void> {
    const snapshot = this.#snapshot
    if (snapshot === undefined) return
    await this.#deps.folder.rebase(bagId, (archive) => {
      const { unused, leftOut } = rebaseTree(this.#deps.folder, snapshot, archive)
      this.#deps.salvage.note(leftOut)
      if (leftOut.length > 0) this.#deps.news.inside(this.#deps.folder.node.id)
      for (const content of unused) {
        content.closeStaged()
        content.letGo(() => {
          this.#removeLater(content.path)
        })
      }
    })
    this.#release()
  }

  #removeLater(path: string): void {
    rm(path, { force: true }).catch((error: unknown) => {
      this.#deps.log.warn({ path, error: String(error) }, 'Staged content stays behind.')
    })
  }

  /**
   * Nothing is in the folder after so many operations. The service cannot hold an empty one: it stays on this
   * machine, and its bag is deleted. What is being written into it is sent once that is closed.
   */
  async #empty(put: PutIntent, operations: number): Promise<void> {
    const { outbox, clock, jobs } = this.#deps
    if (put.replaces.length > 0) {
      const gone = deleteOfEmptied(put, { id: outbox.nextId(), createdAtMs: clock.now() })
      await outbox.add(gone, { durable: true })
    }
    const phase = this.#deps.changes.count > operations ? 'held' : 'local'
    await outbox.update(
      put.id,
      ofPut((latest) => emptied(latest, { start: operations, phase })),
      { durable: true },
    )
    jobs.kick()
  }

  /** As `#empty`, for a folder that has only what it cannot be stored with. Changes that came since are sent next. */
  async #emptyOfLost(put: PutIntent, operations: number, snapshot: Snapshot): Promise<void> {
    leaveAllOut(this.#deps.folder, snapshot)
    this.#deps.news.inside(this.#deps.folder.node.id)
    this.#release()
    await this.#empty(put, operations)
    if (this.#deps.changes.count > operations) this.#deps.changes.touch()
  }

  /** True when a zip would be the one that the service has: nothing was changed but what no program has closed yet. */
  #isAsStored(put: PutIntent): boolean {
    const { base, start = 0 } = put.changes ?? {}
    if (base === undefined || !areAllUnclosed(this.#deps.folder, this.#deps.changes.count - start))
      return false
    const records = this.#deps.entries.recordsOf(base)
    return records.some((record) => listedAs(record.name, put) !== undefined)
  }

  /** The intent is confirmed with the bag that the service has, or goes on to collect changes. */
  async #keepAsStored(put: PutIntent): Promise<void> {
    const { outbox, clock } = this.#deps
    if (unclosedOf(this.#deps.folder).length > 0) {
      await outbox.update(put.id, ofPut(collecting), { durable: false })
      return
    }
    const { base } = put.changes ?? {}
    if (base === undefined) return
    const now = clock.now()
    await outbox.update(
      put.id,
      ofPut((latest) => unchanged(latest, base, now)),
      { durable: true },
    )
    await this.#finish()
  }
}

async function linkFile(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    throw fromFileSystem(error, 'The staged content of a folder cannot be kept')
  }
}
