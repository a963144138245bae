import type { BagCache } from '../../content/bag-cache.ts'
import type { Clock } from '../../domain/clock.ts'
import { keptOf } from '../../domain/attributes.ts'
import { DriveError, goneFile } from '../../domain/errors.ts'
import type { BagId, IntentId, NodeId } from '../../domain/ids.ts'
import { NOTHING } from '../../intents/base.ts'
import type { PutIntent } from '../../intents/intent.ts'
import { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { AccessTimesStore } from '../../state/access-times-store.ts'
import type { LocalPartsStore } from '../../state/local-parts-store.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { StepListener } from '../../outbox/steps.ts'
import type { Jobs } from '../../outbox/jobs.ts'
import type { Entries } from '../root/entries.ts'
import type { Kinds } from '../root/kinds.ts'
import type { Accesses } from '../tree/accesses.ts'
import type { News } from '../tree/news.ts'
import type { DriveNode, FileNode, Nodes } from '../tree/nodes.ts'
import type { Puts } from '../root/puts.ts'
import type { RootAttributes } from '../root/root-attributes.ts'
import type { DriveSettings } from '../settings.ts'
import type { Space } from '../space/space.ts'
import type { Folder } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import { pathOfItem, type DirectoryItem, type FileItem, type Item } from './items.ts'
import { OpenFolder } from './open-folder.ts'
import type { SalvageDeps } from './salvage.ts'

interface OpenFoldersDeps extends SalvageDeps {
  readonly cache: BagCache
  readonly inflated: InflatedFiles
  readonly nodes: Nodes
  readonly news: News
  readonly entries: Entries
  readonly kinds: Kinds
  readonly attributes: RootAttributes
  readonly puts: Puts
  readonly space: Space
  readonly localParts: LocalPartsStore
  readonly accessTimes: AccessTimesStore
  readonly accesses: Accesses
  readonly outbox: Outbox
  readonly jobs: Jobs
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
}

/** About a million and a half of files. */
const MAX_TREE_BYTES = 512 * 1024 * 1024

/** Something in an open folder, or its top. */
export interface Place<Kind extends Item = Item> {
  readonly open: OpenFolder
  readonly item: Kind
}

/** Something inside of a folder, as the drive finds it by its id. */
class ItemNode implements Place, DriveNode {
  readonly open: OpenFolder
  readonly item: Item

  constructor(open: OpenFolder, item: Item) {
    this.open = open
    this.item = item
  }

  get home(): 'folders' {
    return 'folders'
  }

  get top(): FileNode {
    return this.open.folder.node
  }

  get path(): string | undefined {
    const { name } = this.top
    if (name === undefined) return undefined
    const inside = pathOfItem(this.item, this.open.folder.top)
    return inside === undefined ? undefined : `${name}/${inside}`
  }

  /** Another version of its folder may have changed the size of any file. */
  get sizeChangedAtMs(): number {
    const { open, item } = this
    return Math.max(open.replacedAtMs, (item.type === 'file' ? item.sizeChangedAtMs : 0) ?? 0)
  }
}

/** The folders that programs looked into, and what is in them, by id. */
export class OpenFolders {
  readonly #deps: OpenFoldersDeps
  readonly #settings: DriveSettings
  /** By the node of their top; `detach` removes. */
  readonly #open = new Map<NodeId, OpenFolder>()
  readonly #turns = new KeyedLock<Folder>()

  constructor(deps: OpenFoldersDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /** The node of a folder of the root; undefined for all others. */
  topNode(id: NodeId): FileNode | undefined {
    const node = this.#deps.nodes.inRoot(id)
    return node?.isFolder === true ? node : undefined
  }

  /** A folder that is open already. */
  opened(top: NodeId): OpenFolder | undefined {
    return this.#open.get(top)
  }

  all(): Iterable<OpenFolder> {
    return this.#open.values()
  }

  /** The folder of a node of the root, with its tree loaded. */
  async folderOf(node: FileNode): Promise<OpenFolder> {
    if (node.name !== undefined) this.#deps.entries.resolve(node.name)
    const known = this.#open.get(node.id)
    if (known !== undefined && !this.#mayGiveWay(known)) {
      known.usedAtMs = this.#deps.clock.now()
      return known.ready()
    }
    known?.folder.setOpenFilesAside()
    if (known !== undefined) this.#close(known)
    const { nodes } = this.#deps
    const open = new OpenFolder(
      {
        ...this.#deps,
        turns: this.#turns,
        limits: { maxTreeBytes: MAX_TREE_BYTES },
        localParts: this.#deps.localParts,
        nextNode: () => nodes.nextId(),
        register: (item) => {
          nodes.add(item.id, new ItemNode(open, item))
        },
        unregister: (item) => {
          nodes.delete(item.id)
        },
        begin: (at, shown, base, id) => this.#begin(at, shown, base, id),
      },
      {
        restMs: this.#settings.folderRestMs,
        listingLagMs: this.#settings.listingLagMs,
      },
      node,
      this.#deps.attributes.of(node),
    )
    const now = this.#deps.clock.now()
    open.usedAtMs = now
    if (known !== undefined) open.replacedAtMs = now
    this.#open.set(node.id, open)
    this.#closeIdle(now)
    await open.ready()
    // What stat tells of it is more than before.
    if (node.name !== undefined) this.#deps.news.names([node.name])
    return open
  }

  /** Each holds a descriptor of its zip, and its tree: those that were not used for long are opened again when they are. */
  #closeIdle(nowMs: number): void {
    const { count, keptMs } = this.#settings.idleFolders
    for (const [id, open] of this.#open) {
      if (this.#open.size <= count) return
      if (!open.isIdle || nowMs - open.usedAtMs < keptMs) continue
      this.#close(open)
      this.#open.delete(id)
    }
  }

  /** What was in it has other ids when it is looked at again. */
  #close(open: OpenFolder): void {
    open.close()
    this.#deps.news.inside(open.folder.node.id)
  }

  /**
   * True when another version is to be shown, and nothing keeps this one. What is written belongs to it. A kernel with one
   * inode for a name would also cut reads of it at the size of the new one.
   */
  #mayGiveWay({ isOutdated, folder: { openFiles, openReaders } }: OpenFolder): boolean {
    if (!isOutdated) return false
    return openFiles === 0 || (openFiles === openReaders && !this.#deps.entries.isOneInodePerName)
  }

  /** As `placeOf`, for what is loaded; undefined where something is to be waited for. */
  placeNow(id: NodeId): Place | undefined {
    const top = this.topNode(id)
    if (top === undefined) return this.#itemNow(id)
    if (top.name !== undefined) this.#deps.entries.resolve(top.name)
    const open = this.#open.get(id)
    if (open === undefined || !open.isReady || open.isOutdated) return undefined
    open.usedAtMs = this.#deps.clock.now()
    return { open, item: open.folder.top }
  }

  #item(id: NodeId): ItemNode | undefined {
    const node = this.#deps.nodes.get(id)
    return node instanceof ItemNode ? node : undefined
  }

  /** Undefined for what is in a version that is to give way. */
  #itemNow(id: NodeId): Place | undefined {
    const place = this.#item(id)
    if (place === undefined) return undefined
    const { node } = place.open.folder
    if (node.name !== undefined) this.#deps.entries.resolve(node.name)
    place.open.usedAtMs = this.#deps.clock.now()
    return this.#mayGiveWay(place.open) ? undefined : place
  }

  /** Rejects `not-found` for what is in no folder any more. */
  async placeOf(id: NodeId): Promise<Place> {
    const top = this.topNode(id)
    if (top !== undefined) {
      const open = await this.folderOf(top)
      return { open, item: open.folder.top }
    }
    const place = this.#item(id)
    if (place === undefined) throw goneFile()
    return place
  }

  /** As `placeOf`; rejects `stale` for an open file whose name leads to another version. */
  async placeToChange(id: NodeId): Promise<Place> {
    const place = await this.placeOf(id)
    const { item } = place
    if (item.type === 'file' && item.isAside === true) {
      throw new DriveError('stale', 'Another machine has changed this folder.')
    }
    return place
  }

  async directory(id: NodeId): Promise<Place<DirectoryItem>> {
    const { open, item } = await this.placeOf(id)
    if (item.type !== 'directory') throw new DriveError('not-a-directory', 'This is a file.')
    return { open, item }
  }

  /**
   * Takes up the version that a folder has now, where nothing keeps the one before. A bridge that knows nodes by their ids
   * may not have looked at the names above a directory.
   */
  async follow(id: NodeId): Promise<void> {
    const { entries, nodes, kinds } = this.#deps
    const top = nodes.get(id)?.top
    if (top?.name === undefined || top.isAside) return
    await entries.fresh()
    entries.resolve(top.name)
    await kinds.learnSoon(top.entry)
    if (this.#open.has(top.id) && this.topNode(top.id) !== undefined) await this.folderOf(top)
  }

  /** Rejects `stale` for one whose name leads to another version: the kernel is to look for that. */
  async file(id: NodeId): Promise<Place<FileItem>> {
    const { open, item } = await this.placeToChange(id)
    if (item.type === 'directory') throw new DriveError('is-a-directory', 'This is a directory.')
    if (item.type !== 'file') throw new DriveError('invalid', 'This is no file.')
    return { open, item }
  }

  /** Runs a task while nothing else changes these folders. */
  async inTurns<Result>(
    folders: readonly OpenFolder[],
    task: () => Promise<Result>,
  ): Promise<Result> {
    return this.#turns.runAll(
      folders.map(({ folder }) => folder),
      task,
    )
  }

  /** True for what is in the version that its folder shows. */
  isSteady(id: NodeId): boolean {
    const place = this.#item(id)
    if (place === undefined) return false
    const { item, open } = place
    const { name, isAside } = open.folder.node
    return item.parent !== undefined && name !== undefined && !isAside && !open.isOutdated
  }

  /** Those whose name means something else by now, or another version, which was not taken up yet. */
  *outdated(): Iterable<NodeId> {
    for (const [id, open] of this.#open) {
      const { name, isAside } = open.folder.node
      const peeked = name === undefined || isAside ? undefined : this.#deps.entries.peek(name)
      if (peeked?.node?.id !== id || open.isOutdatedBy(peeked.entry)) yield id
    }
  }

  /** Throws `busy` when a program writes in a folder that has the changes of one of these intents. */
  refuseWritten(ids: readonly IntentId[]): void {
    for (const id of ids) {
      const open = this.changedBy(id)
      if (open === undefined || open.folder.openFiles === open.folder.openReaders) continue
      throw new DriveError('busy', `A program is writing in ${open.folder.node.serviceName}.`, {
        hint: 'Try again when it has closed its file.',
      })
    }
  }

  /** Changes were discarded: what is left of their folders is made anew from what is stored. Open files are read to their end. */
  forgetChanges(ids: readonly IntentId[]): void {
    for (const id of ids) {
      const open = this.changedBy(id)
      if (open === undefined) continue
      const { node } = open.folder
      open.folder.setOpenFilesAside()
      this.#close(open)
      this.#open.delete(node.id)
      if (node.name !== undefined) this.#deps.news.names([node.name])
    }
  }

  /** A folder was removed from the root. */
  detach(node: FileNode): void {
    const open = this.#open.get(node.id)
    if (open !== undefined) this.#close(open)
    this.#open.delete(node.id)
    this.#deps.accessTimes.set(node.serviceName, [])
  }

  close(): void {
    for (const open of this.#open.values()) open.close()
    this.#open.clear()
  }

  /** The open folder that an intent has the changes of. */
  changedBy(id: IntentId): OpenFolder | undefined {
    for (const open of this.#open.values()) if (open.intentId === id) return open
    return undefined
  }

  /**
   * For changes to the bag `base`, while `shown` has the name. When another machine put that there, both
   * are kept.
   */
  #begin(node: FileNode, shown: BagId, base: BagId, id: IntentId): Promise<PutIntent> {
    const isOurs = shown === base || this.#isSuccessor(shown, base)
    const bag = isOurs ? shown : base
    const { entry } = node
    const replaced = isOurs ? { replaces: [bag], supersedes: [] } : NOTHING
    const what = {
      description: entry?.kind === 'bag' ? entry.record.description : this.#settings.description,
      ...keptOf(this.#deps.attributes.of(node)),
      content: { from: 'folder' },
      isFolder: true,
      changes: { base: bag, start: 0 },
    } as const
    return this.#deps.puts.add(node.serviceName, replaced, what, id)
  }

  /** True when the same content went from one bag to the other here (a folder was renamed). */
  #isSuccessor(bag: BagId, before: BagId): boolean {
    return this.#deps.outbox
      .intents()
      .some((put) => put.kind === 'put' && put.bagId === bag && put.replaces.includes(before))
  }
}
