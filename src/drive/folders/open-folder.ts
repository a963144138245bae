import { rm, stat } from 'node:fs/promises'
import { linkOrCopy } from '../../disk/link-or-copy.ts'
import type { KeptAttributes } from '../../domain/attributes.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { PutIntent } from '../../intents/intent.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import { damagedBase, isMadeOfRestored, restoredBase } from '../../outbox/restored.ts'
import type { StepListener } from '../../outbox/steps.ts'
import type { Space } from '../space/space.ts'
import type { News } from '../tree/news.ts'
import type { FileNode } from '../tree/nodes.ts'
import { ChangeLog, type ChangeLogDeps, type ChangeLogSettings } from './change-log.ts'
import { Folder, type FolderDeps } from './folder.ts'
import { FolderAttributes } from './folder-attributes.ts'
import { FolderFiles } from './folder-files.ts'
import { laterTimes } from './items.ts'
import { FolderNames } from './folder-names.ts'
import { NamelessFiles } from './nameless-files.ts'
import { FolderRoom } from './folder-room.ts'
import { FolderRounds } from './folder-rounds.ts'
import type { InflatedFiles } from './inflated-files.ts'
import { LocalContents } from './local-contents.ts'
import { takeSnapshot } from './packing.ts'
import { Replay } from './replay.ts'
import { Salvage, type SalvageDeps } from './salvage.ts'

export interface OpenFolderDeps extends FolderDeps, ChangeLogDeps, SalvageDeps {
  /** One change of a folder at a time. */
  readonly turns: KeyedLock<Folder>
  readonly outbox: Outbox
  readonly news: News
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
  readonly nameless: NamelessFiles
  readonly attributes: FolderAttributes
  readonly room: FolderRoom
  readonly rounds: FolderRounds
  /** When this took the place of another version of the folder, in ms since the epoch; 0 when it took none. */
  replacedAtMs = 0
  /** When a program last asked for something in it, in ms since the epoch. */
  usedAtMs = 0
  readonly #deps: OpenFolderDeps
  readonly #contents: LocalContents
  readonly #salvage: Salvage
  #isReady = false
  #loading: Promise<void> | undefined
  /** The intent whose changes are being loaded; undefined before and after. */
  #loadingIntent: IntentId | undefined

  constructor(
    deps: OpenFolderDeps,
    settings: OpenFolderSettings,
    node: FileNode,
    kept: KeptAttributes,
  ) {
    this.#deps = deps
    this.folder = new Folder(deps, node, kept)
    this.#salvage = new Salvage(deps, this.folder)
    this.changes = new ChangeLog(deps, settings, node, {
      base: () => this.folder.baseBag,
      refuseClosed: () => {
        this.folder.refuseClosed()
      },
      noteChanges: (are) => {
        this.room.noteChanges(are)
        if (are) this.folder.keepBase()
      },
    })
    const intentId = (): IntentId | undefined => this.intentId ?? this.#waitingOf(node)?.id
    const operations = (): number => this.changes.count
    this.room = new FolderRoom({ ...deps, folder: this.folder, intentId, operations })
    const { room } = this
    this.#contents = new LocalContents({
      outbox: deps.outbox,
      changes: this.changes,
      room: room.group,
      clock: deps.clock,
    })
    const { folder, changes } = this
    const inTurn = <Result>(task: () => Promise<Result>): Promise<Result> =>
      deps.turns.run(folder, task)
    const shared = { ...deps, folder, changes, room, contents: this.#contents, inTurn }
    this.files = new FolderFiles(shared)
    this.names = new FolderNames({ ...shared, files: this.files })
    this.nameless = new NamelessFiles({ ...shared, files: this.files })
    this.attributes = new FolderAttributes(shared)
    this.rounds = new FolderRounds({ ...shared, salvage: this.#salvage }, settings)
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
      // They may be stored before the tree is loaded, and others must not be added to them then.
      this.changes.leave()
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
    await this.#loadTree()
    await this.folder.placeLocalParts()
  }

  async #loadTree(): Promise<void> {
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
    const filesDir = this.changes.files.dir
    const parts = { folder: this.folder, contents: this.#contents, filesDir, isBaseUnknown }
    const replay = new Replay(parts, this.#deps.log)
    // What is on its way already is told from what came after it.
    const { start = 0, packed = start } = changes ?? {}
    const sent = content.from === 'folder' ? 0 : packed - start
    await replay.run(operations.slice(0, sent))
    if (content.from !== 'folder') this.rounds.hold(takeSnapshot(this.folder).snapshot)
    await replay.run(operations.slice(sent))
    this.#contents.count(this.folder.top)
    const { top } = this.folder
    Object.assign(top, laterTimes(intent, top))
  }

  /** True when the base is gone, and nothing here tells what was in it: the tree is what was changed. */
  async #loadBase(intent: PutIntent): Promise<boolean> {
    const { content, changes } = intent
    const { folder } = this
    await this.#takeBase(intent)
    try {
      await folder.load(content.from === 'bag' ? content.bagId : changes?.base)
      return false
    } catch (error) {
      if (isMadeOfRestored(intent) && isDriveError(error, 'gone')) throw damagedBase(intent, error)
      const base = content.from === 'bag' ? undefined : changes?.base
      if (base === undefined || !(await this.#salvage.isCalledFor(error, base))) throw error
      await folder.load(undefined)
      this.#salvage.noteUnknown()
      return true
    }
  }

  /**
   * No service has the base of a folder that came back from the trash, and the cache may lose it: until the folder is
   * stored, the outbox has it for the cache.
   */
  async #takeBase(put: PutIntent): Promise<void> {
    const { content, changes, restores } = put
    if (content.from === 'staged' && changes === undefined) {
      throw new DriveError('busy', 'The folder is being stored right now.')
    }
    const { cache, outbox } = this.#deps
    if (restores === undefined || !isMadeOfRestored(put) || cache.isTrusted(restores)) return
    const base = await restoredBase(outbox, put)
    if (base === undefined) {
      cache.forget(restores)
      return
    }
    const fresh = `${base}.fresh`
    await rm(fresh, { force: true })
    await linkOrCopy(base, fresh)
    await cache.adopt(restores, fresh, (await stat(fresh)).size)
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
    return this.isOutdatedBy(this.folder.node.entry)
  }

  isOutdatedBy(entry: Entry | undefined): boolean {
    const base = this.folder.baseBag
    if (this.intentId !== undefined || entry === undefined) return false
    if (entry.kind === 'pending') return entry.intent.content.from !== 'bag'
    return base !== undefined && entry.record.bagId !== base
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
