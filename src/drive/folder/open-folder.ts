import { link, rm } from 'node:fs/promises'
import { fromFileSystem } from '../../domain/errors.ts'
import { listedAs } from '../../domain/folder-names.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import { newDelete } from '../../intents/builders.ts'
import type { PutIntent } from '../../intents/intent.ts'
import { emptied, nextRound, ofPut, unchanged } from '../../intents/transitions.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { StepListener } from '../../outbox/steps.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import { syncDirectory } from '../../disk/atomic-file.ts'
import type { FileNode } from '../nodes.ts'
import type { Space } from '../space.ts'
import { FolderFiles } from './folder-files.ts'
import { FolderNames } from './folder-names.ts'
import { FolderRoom } from './folder-room.ts'
import { FolderWork, type WorkDeps, type WorkSettings } from './folder-work.ts'
import { Folder, type FolderDeps } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import type { LocalContent } from './item-content.ts'
import { pathOfItem } from './items.ts'
import { fileOperation, LocalContents, versionsOf } from './local-contents.ts'
import {
  dropLocal,
  leadTo,
  pack,
  takeSnapshot,
  unclosedOf,
  type PackedZip,
  type PackOptions,
  type Snapshot,
} from './packing.ts'
import { Replay } from './replay.ts'

export interface OpenFolderDeps extends FolderDeps, WorkDeps {
  /** One change of a folder at a time. */
  readonly turns: KeyedLock<Folder>
  readonly outbox: Outbox
  readonly inflated: InflatedFiles
  readonly space: Space
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
}

interface OpenFolderSettings extends WorkSettings {
  /** How long a listing may show what is deleted, in ms. */
  readonly listingLagMs: number
}

/** One folder of the root that somebody has looked into or changed. */
export class OpenFolder {
  readonly folder: Folder
  readonly work: FolderWork
  readonly files: FolderFiles
  readonly names: FolderNames
  readonly room: FolderRoom
  readonly #deps: OpenFolderDeps
  readonly #contents: LocalContents
  /** Operations written down once more, because the zip that is on its way is without them. */
  #repeated = 0
  #isReady = false
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
    this.work = new FolderWork(deps, settings, node, {
      base: () => this.folder.baseBag,
      noteChanges: (are) => {
        this.room.noteChanges(are)
      },
    })
    const intentId = (): IntentId | undefined => this.intentId ?? this.#waitingOf(node)?.id
    this.room = new FolderRoom({ ...deps, folder: this.folder, intentId })
    const { room } = this
    this.#contents = new LocalContents({ work: this.work, room: room.group, clock: deps.clock })
    const inTurn = <Result>(task: () => Promise<Result>): Promise<Result> => this.#inTurn(task)
    const { folder, work } = this
    const shared = { ...deps, folder, work, room, contents: this.#contents, inTurn }
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

  /** The intent that holds the changes of this folder, also while they are being loaded. */
  get intentId(): IntentId | undefined {
    return this.work.id ?? this.#loadingIntent
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
    await this.folder.load(content.from === 'bag' ? content.bagId : changes?.base)
    const operations = await this.work.open(intent)
    const replay = new Replay(this.folder, this.#contents, this.work.filesDir, this.#deps.log)
    // What is on its way already is told from what came after it.
    const { start = 0, packed = start } = changes ?? {}
    const sent = content.from === 'folder' ? 0 : packed - start
    await replay.run(operations.slice(0, sent))
    if (content.from !== 'folder') this.#hold(takeSnapshot(this.folder).snapshot)
    await replay.run(operations.slice(sent))
    this.#contents.count(this.folder.top)
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
    const latest = this.#deps.outbox.get(node.entry.intent.id)
    return latest?.kind === 'put' ? latest : undefined
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
   * Packs everything into a zip at `path`. `operations` says how many changes are in it, `mtimeMs` is the
   * folder's own time. Undefined when there is nothing to send: the folder is empty, or as it is stored; the
   * intent says so already.
   */
  async pack(
    path: string,
    options: PackOptions,
  ): Promise<(PackedZip & { readonly operations: number; readonly mtimeMs: number }) | undefined> {
    const id = this.work.id
    const taken = await this.#inTurn(async () => {
      this.#release()
      const intent = id === undefined ? undefined : this.#deps.outbox.get(id)
      if (intent?.kind !== 'put' || (await this.#isUnchanged(intent))) return undefined
      await this.#splitTorn()
      const { plan, snapshot } = takeSnapshot(this.folder)
      if (plan.length === 0) {
        await this.#empty(intent)
        return undefined
      }
      this.#hold(snapshot)
      const operations = this.work.count
      await this.#repeatUnclosed()
      return { plan, snapshot, operations }
    })
    if (taken === undefined) return undefined
    const { plan, snapshot, operations } = taken
    this.work.notePacking()
    try {
      const packed = await pack(plan, path, options)
      return { ...packed, operations, mtimeMs: this.folder.top.mtimeMs }
    } catch (error) {
      if (this.#snapshot === snapshot) this.#release()
      throw error
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
    const { work, folder } = this
    for (const { item, content } of unclosedOf(folder)) {
      const path = pathOfItem(item, folder.top)
      if (!content.journaled || path === undefined) continue
      const again = work.newFile()
      await linkFile(content.path, again.path)
      const { file } = again
      const { length } = content
      work.repeat(fileOperation(item, { file, length }, path, this.#deps.clock.now()))
      this.#repeated += 1
      this.#deps.onStep?.('folder.repeated')
    }
    if (this.#repeated === 0) return
    await syncDirectory(work.filesDir)
    await work.sync()
  }

  #release(): void {
    if (this.#snapshot !== undefined) for (const each of localOf(this.#snapshot)) each.unpin()
    this.#snapshot = undefined
  }

  /**
   * The service has the zip as a new bag. What came after it was packed begins the next round; the
   * rest is read from the new bag from now on. True when there is a next round.
   */
  async committed(put: PutIntent, bagId: BagId): Promise<boolean> {
    if (this.work.id !== put.id) return false
    this.work.noteUploaded()
    return this.#inTurn(async () => {
      await this.#lead(bagId)
      const packed = put.changes?.packed ?? put.changes?.start ?? 0
      const isChanged = this.work.count > packed
      if (isChanged || unclosedOf(this.folder).length > 0) {
        const forgetBeforeMs = this.#deps.clock.now() - this.#listingLagMs
        const zip = { bagId, packed, deleted: put.deleted ?? [], forgetBeforeMs }
        const change = ofPut((latest) => nextRound(latest, zip))
        await this.#deps.outbox.update(put.id, change, { durable: true })
        if (this.work.count > packed + this.#repeated) this.work.touch()
        return true
      }
      await this.#finish()
      return false
    })
  }

  async #finish(): Promise<void> {
    dropLocal(this.folder)
    await this.work.finish()
  }

  async #lead(bagId: BagId): Promise<void> {
    const snapshot = this.#snapshot
    if (snapshot === undefined || this.folder.baseBag === bagId) return
    await this.folder.rebase(bagId, (archive) => {
      for (const content of leadTo(this.folder, snapshot, archive)) {
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
   * Nothing is in the folder any more. The service cannot hold an empty one: it stays on this
   * machine, and its bag is deleted.
   */
  async #empty(put: PutIntent): Promise<void> {
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
    const start = this.work.count
    await outbox.update(
      put.id,
      ofPut((latest) => emptied(latest, start)),
      { durable: true },
    )
    uploader.kick()
  }

  /** True when the service has the folder as it is; the intent is confirmed with that bag then. */
  async #isUnchanged(put: PutIntent): Promise<boolean> {
    const { base, start } = put.changes ?? {}
    if (base === undefined || start !== this.work.count) return false
    if (unclosedOf(this.folder).length > 0) return false
    const isListed = this.#deps.entries
      .recordsOf(base)
      .some((record) => listedAs(record.name, put) !== undefined)
    if (!isListed) return false
    const { outbox, clock } = this.#deps
    const now = clock.now()
    await outbox.update(
      put.id,
      ofPut((latest) => unchanged(latest, base, now)),
      { durable: true },
    )
    await this.#finish()
    return true
  }

  /** Sends what waits now; answers the intent to wait for, if any. */
  publish(): Promise<IntentId | undefined> {
    return this.work.publish()
  }

  close(): void {
    this.work.close()
    this.#contents.giveBack(this.folder.top)
    this.room.close()
    this.folder.close()
  }
}

function localOf({ files }: Snapshot): readonly LocalContent[] {
  return Array.from(files.values(), ({ content }) => content).filter(
    (content) => content.from === 'local',
  )
}

async function linkFile(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    throw fromFileSystem(error, 'The staged content of a folder cannot be kept')
  }
}
