import { link, rm } from 'node:fs/promises'
import { DriveError, fromFileSystem, isDriveError } from '../../domain/errors.ts'
import { listedAs } from '../../domain/folder-names.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import { newDelete } from '../../intents/builders.ts'
import type { PutIntent } from '../../intents/intent.ts'
import { collecting, emptied, nextRound, ofPut, unchanged } from '../../intents/transitions.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { PackedFolder, PackOptions } from '../../outbox/ports.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { StepListener } from '../../outbox/steps.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import { syncDirectory } from '../../disk/sync.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { Space } from '../space/space.ts'
import { FolderFiles } from './folder-files.ts'
import { FolderNames } from './folder-names.ts'
import { FolderRoom } from './folder-room.ts'
import { ChangeLog, type ChangeLogDeps, type ChangeLogSettings } from './change-log.ts'
import { Folder, type FolderDeps, type OpenZip } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import { pathOfItem } from './items.ts'
import { fileOperation, LocalContents, versionsOf } from './local-contents.ts'
import {
  areAllUnclosed,
  dropLocal,
  rebaseTree,
  leaveAllOut,
  localOf,
  pack,
  takeSnapshot,
  unclosedOf,
  type Snapshot,
} from './packing.ts'
import { Replay } from './replay.ts'
import { Salvage, type SalvageDeps } from './salvage.ts'

export interface OpenFolderDeps extends FolderDeps, ChangeLogDeps, SalvageDeps {
  /** One change of a folder at a time. */
  readonly turns: KeyedLock<Folder>
  readonly outbox: Outbox
  readonly inflated: InflatedFiles
  readonly space: Space
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
}

interface OpenFolderSettings extends ChangeLogSettings {
  /** How long a listing may show what is deleted, in ms. */
  readonly listingLagMs: number
}

/** One folder of the root that a program has looked into or changed. */
export class OpenFolder {
  readonly folder: Folder
  readonly changes: ChangeLog
  readonly files: FolderFiles
  readonly names: FolderNames
  readonly room: FolderRoom
  /** When this took the place of another version of the folder, in ms since the epoch; 0 when it took none. */
  replacedAtMs = 0
  /** When a program last asked for something in it, in ms since the epoch. */
  usedAtMs = 0
  readonly #deps: OpenFolderDeps
  readonly #contents: LocalContents
  readonly #salvage: Salvage
  /** Operations written down once more, because the zip that is on its way is without them. */
  #repeated = 0
  #isReady = false
  /** The base came a second time, and was not the same: the tree may lack what it has. */
  #isMisread = false
  readonly #listingLagMs: number
  #loading: Promise<void> | undefined
  /** The intent whose changes are being loaded; undefined before and after. */
  #loadingIntent: IntentId | undefined
  /** What the zip that is on its way was made of. */
  #snapshot: Snapshot | undefined

  constructor(
    deps: OpenFolderDeps,
    settings: OpenFolderSettings,
    node: FileNode,
    times: { readonly mode: number; readonly mtimeMs: number },
  ) {
    this.#deps = deps
    this.#listingLagMs = settings.listingLagMs
    this.folder = new Folder(deps, node, { ...times })
    this.#salvage = new Salvage(deps, this.folder)
    this.changes = new ChangeLog(deps, settings, node, {
      base: () => this.folder.baseBag,
      noteChanges: (are) => {
        this.room.noteChanges(are)
        if (are) this.folder.keepBase()
      },
    })
    const intentId = (): IntentId | undefined => this.intentId ?? this.#waitingOf(node)?.id
    this.room = new FolderRoom({ ...deps, folder: this.folder, intentId })
    const { room } = this
    this.#contents = new LocalContents({
      outbox: deps.outbox,
      changes: this.changes,
      room: room.group,
      clock: deps.clock,
    })
    const inTurn = <Result>(task: () => Promise<Result>): Promise<Result> => this.#inTurn(task)
    const { folder, changes } = this
    const shared = { ...deps, folder, changes, room, contents: this.#contents, inTurn }
    this.files = new FolderFiles(shared)
    this.names = new FolderNames({ ...shared, files: this.files })
  }

  #inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    return this.#deps.turns.run(this.folder, task)
  }

  /** True once the tree is loaded. */
  get isReady(): boolean {
    return this.#isReady
  }

  /** True when nothing would be lost with its tree: it is as it is stored, and no file of it is open. */
  get isIdle(): boolean {
    return this.#isReady && this.intentId === undefined && this.folder.openFiles === 0
  }

  /** The intent that holds the changes of this folder, also while they are being loaded. */
  get intentId(): IntentId | undefined {
    return this.changes.id ?? this.#loadingIntent
  }

  /** Loads the tree once: the bag's, and the changes on top. A failure is tried again at the next call. */
  async ready(): Promise<this> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = undefined
      const { serviceName, entry } = this.folder.node
      const bagId = entry?.kind === 'bag' ? entry.record.bagId : entry?.intent.changes?.base
      this.#deps.log.warn({ bagId, folder: serviceName }, `No folder: ${String(error)}`)
      throw error
    })
    await this.#loading
    this.#isReady = true
    return this
  }

  async #load(): Promise<void> {
    const { node } = this.folder
    const intent = this.#intentOf(node)
    if (intent === undefined) {
      await this.folder.load(node.entry?.kind === 'bag' ? node.entry.record.bagId : undefined)
      return
    }
    this.#loadingIntent = intent.id
    try {
      await this.#loadChanged(intent)
    } finally {
      this.#loadingIntent = undefined
    }
  }

  async #loadChanged(intent: PutIntent): Promise<void> {
    const { changes, content } = intent
    const isBaseUnknown = await this.#loadBase(intent)
    const operations = await this.changes.open(intent)
    const { filesDir } = this.changes
    const parts = { folder: this.folder, contents: this.#contents, filesDir, isBaseUnknown }
    const replay = new Replay(parts, this.#deps.log)
    // What is on its way already is told from what came after it.
    const { start = 0, packed = start } = changes ?? {}
    const sent = content.from === 'folder' ? 0 : packed - start
    await replay.run(operations.slice(0, sent))
    if (content.from !== 'folder') this.#hold(takeSnapshot(this.folder).snapshot)
    await replay.run(operations.slice(sent))
    this.#contents.count(this.folder.top)
  }

  /** True when the base is gone, and nothing here tells what was in it: the tree is what was changed. */
  async #loadBase({ content, changes }: PutIntent): Promise<boolean> {
    const { folder } = this
    try {
      await folder.load(content.from === 'bag' ? content.bagId : changes?.base)
      return false
    } catch (error) {
      const base = content.from === 'bag' ? undefined : changes?.base
      if (base === undefined || !(await this.#salvage.isCalledFor(error, base))) throw error
      await folder.load(undefined)
      this.#salvage.noteUnknown()
      return true
    }
  }

  #hold(snapshot: Snapshot): void {
    this.#release()
    this.#snapshot = snapshot
    for (const content of localOf(snapshot)) content.pin()
  }

  #waitingOf(node: FileNode): PutIntent | undefined {
    const intent = this.#intentOf(node)
    return intent?.phase === 'confirmed' ? undefined : intent
  }

  #intentOf(node: FileNode): PutIntent | undefined {
    if (node.entry?.kind !== 'pending') return undefined
    return this.#deps.outbox.put(node.entry.intent.id)
  }

  /** True when the name stands for another bag, or for other changes, than what is shown here. */
  get isOutdated(): boolean {
    const { entry } = this.folder.node
    const base = this.folder.baseBag
    if (this.intentId !== undefined || entry === undefined) return false
    if (entry.kind === 'pending') return entry.intent.content.from !== 'bag'
    return base !== undefined && entry.record.bagId !== base
  }

  /**
   * Packs everything into a zip at `path`. Undefined when there is nothing to send: the folder is empty, or as it is stored; the
   * intent says so already.
   */
  async pack(path: string, options: PackOptions): Promise<PackedFolder | undefined> {
    try {
      return await this.#pack(path, options, undefined)
    } catch (error) {
      const { base } = this.folder
      if (base === undefined) throw error
      if (!(await this.#salvage.isCalledFor(error, base.bagId, options.signal))) throw error
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
    const taken = await this.#inTurn(() => this.#take())
    if (taken === undefined) return undefined
    const { snapshot, operations, put } = taken
    this.changes.notePacking()
    try {
      const plan =
        gone === undefined
          ? taken.plan
          : await this.#salvage.planOf(taken.plan, gone, put, options.signal)
      if (plan.length > 0) {
        const packed = await pack(plan, path, options)
        return { ...packed, operations, mtimeMs: this.folder.top.mtimeMs }
      }
      await this.#inTurn(() => this.#emptyOfLost(put, operations, snapshot))
      return undefined
    } catch (error) {
      if (this.#snapshot === snapshot) this.#release()
      throw error
    }
  }

  /** False once nothing was left in the folder: it was deleted at the service then. */
  get #hasBase(): boolean {
    const put = this.#deps.outbox.put(this.changes.id)
    return put === undefined || put.changes?.base !== undefined
  }

  /** What is to be packed; undefined when there is nothing to send. */
  async #take() {
    this.#release()
    const put = this.#deps.outbox.put(this.changes.id)
    if (put === undefined) return undefined
    if (this.#isAsStored(put)) {
      await this.#keepAsStored(put)
      return undefined
    }
    await this.#splitTorn()
    const { plan, snapshot } = takeSnapshot(this.folder)
    const operations = this.changes.count
    if (plan.length > 0) this.#hold(snapshot)
    await this.#repeatUnclosed()
    if (plan.length > 0) return { plan, snapshot, operations, put }
    await this.#empty(put, operations)
    return undefined
  }

  /** Something made of the tree takes the place of its base: what the tree was made from has to be that. */
  async confirmBase(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { base, node } = this.folder
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
    const { folder } = this
    for (const { item } of unclosedOf(folder)) {
      const path = pathOfItem(item, folder.top)
      if (path === undefined) continue
      for (const content of versionsOf(item)) await this.#contents.splitOff(item, content, path)
    }
    this.#deps.onStep?.('folder.split')
  }

  /**
   * What is in the journal and not closed is not in the zip: it is written down once more, behind what
   * the zip has. A link of another name keeps a start from taking it for what went into the zip.
   */
  async #repeatUnclosed(): Promise<void> {
    this.#repeated = 0
    const { changes, folder } = this
    for (const { item, content } of unclosedOf(folder)) {
      const path = pathOfItem(item, folder.top)
      if (!content.journaled || path === undefined) continue
      const again = changes.newFile()
      await linkFile(content.path, again.path)
      const { file } = again
      const { length } = content
      changes.repeat(fileOperation(item, { file, length }, path, this.#deps.clock.now()))
      this.#repeated += 1
      this.#deps.onStep?.('folder.repeated')
    }
    if (this.#repeated === 0) return
    await syncDirectory(changes.filesDir)
    await changes.sync()
  }

  #release(): void {
    this.#salvage.end()
    if (this.#snapshot !== undefined) for (const each of localOf(this.#snapshot)) each.unpin()
    this.#snapshot = undefined
  }

  /**
   * The service has the zip as a new bag. What came after it was packed begins the next round; the
   * rest is read from the new bag from now on. True when there is a next round.
   */
  async committed(put: PutIntent, bagId: BagId): Promise<boolean> {
    if (this.changes.id !== put.id) return false
    this.changes.noteUploaded()
    return this.#inTurn(async () => {
      await this.#rebase(bagId)
      const packed = put.changes?.packed ?? put.changes?.start ?? 0
      const isChanged = this.changes.count > packed
      if (isChanged || unclosedOf(this.folder).length > 0) {
        const forgetBeforeMs = this.#deps.clock.now() - this.#listingLagMs
        const zip = { bagId, packed, deleted: put.deleted ?? [], forgetBeforeMs }
        const change = ofPut((latest) => nextRound(latest, zip))
        await this.#deps.outbox.update(put.id, change, { durable: true })
        if (this.changes.count > packed + this.#repeated) this.changes.touch()
        return true
      }
      await this.#finish()
      return false
    })
  }

  async #finish(): Promise<void> {
    dropLocal(this.folder)
    await this.changes.finish()
  }

  async #rebase(bagId: BagId): Promise<void> {
    const snapshot = this.#snapshot
    if (snapshot === undefined || this.folder.baseBag === bagId) return
    await this.folder.rebase(bagId, (archive) => {
      const { unused, leftOut } = rebaseTree(this.folder, snapshot, archive)
      this.#salvage.note(leftOut)
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
    const { outbox, clock, uploader } = this.#deps
    if (put.replaces.length > 0) {
      const { name, replaces, deleted, uploaded, after } = put
      const gone = newDelete({
        id: outbox.nextId(),
        name,
        createdAtMs: clock.now(),
        replaces,
        ...(deleted === undefined ? {} : { deleted }),
        ...(uploaded === undefined ? {} : { uploaded }),
        ...(after === undefined ? {} : { after }),
      })
      await outbox.add(gone, { durable: true })
    }
    const phase = this.changes.count > operations ? 'held' : 'local'
    await outbox.update(
      put.id,
      ofPut((latest) => emptied(latest, { start: operations, phase })),
      { durable: true },
    )
    uploader.kick()
  }

  /** As `#empty`, for a folder that has only what it cannot be stored with. Changes that came since are sent next. */
  async #emptyOfLost(put: PutIntent, operations: number, snapshot: Snapshot): Promise<void> {
    leaveAllOut(this.folder, snapshot)
    this.#release()
    await this.#empty(put, operations)
    if (this.changes.count > operations) this.changes.touch()
  }

  /** True when a zip would be the one that the service has: nothing was changed but what no program has closed yet. */
  #isAsStored(put: PutIntent): boolean {
    const { base, start = 0 } = put.changes ?? {}
    if (base === undefined || !areAllUnclosed(this.folder, this.changes.count - start)) return false
    const records = this.#deps.entries.recordsOf(base)
    return records.some((record) => listedAs(record.name, put) !== undefined)
  }

  /** The intent is confirmed with the bag that the service has, or goes on to collect changes. */
  async #keepAsStored(put: PutIntent): Promise<void> {
    const { outbox, clock } = this.#deps
    if (unclosedOf(this.folder).length > 0) {
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

  /** Sends what waits now; answers the intent to wait for, if any. */
  publish(): Promise<IntentId | undefined> {
    return this.changes.publish()
  }

  close(): void {
    this.changes.close()
    this.#contents.giveBack(this.folder.top)
    this.room.close()
    this.folder.close()
  }
}

async function linkFile(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    throw fromFileSystem(error, 'The staged content of a folder cannot be kept')
  }
}
