import type { Clock } from '../../domain/clock.ts'
import {
  withChanges,
  type AttributeChanges,
  type Owner,
  type SpecialNode,
} from '../../domain/attributes.ts'
import { DriveError, noSuchFile } from '../../domain/errors.ts'
import type { IntentId, NodeId } from '../../domain/ids.ts'
import { NOTHING } from '../../intents/base.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { AccessTimesStore } from '../../state/access-times-store.ts'
import type { LocalPartsStore } from '../../state/local-parts-store.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import { refuseFalselyEmpty } from '../../zip/content.ts'
import type { Attributes, DirectoryEntry } from '../tree/attributes.ts'
import type { Entries } from '../root/entries.ts'
import type { BagAttributes } from '../root/bag-attributes.ts'
import type { News } from '../tree/news.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { OpenFile, OpenMode } from '../tree/open-file.ts'
import { SIZE_TRUSTED_MS } from '../tree/size-trust.ts'
import type { Puts } from '../root/puts.ts'
import type { RootAttributes } from '../root/root-attributes.ts'
import type { InsideOfFolders } from '../root/root-home.ts'
import type { DriveSettings } from '../settings.ts'
import type { Created, CreateOptions, Home, MadeAttributes, OpenOptions } from '../tree/home.ts'
import { FolderOpenFile } from './folder-open-file.ts'
import { attributesOf, linksOf } from './item-attributes.ts'
import type { FileItem } from './items.ts'
import { laterTimes } from './items.ts'
import type { OpenFolder } from './open-folder.ts'
import type { OpenFolders } from './open-folders.ts'

interface FolderHomeDeps {
  readonly folders: OpenFolders
  readonly news: News
  readonly entries: Entries
  readonly attributes: RootAttributes
  readonly extended: BagAttributes
  readonly puts: Puts
  readonly localParts: Pick<LocalPartsStore, 'move' | 'exchange'>
  readonly accessTimes: Pick<AccessTimesStore, 'move' | 'exchange'>
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly clock: Clock
  readonly log: Logger
}

/** The inside of folder bags. */
export class FolderHome implements Home, InsideOfFolders {
  readonly #deps: FolderHomeDeps
  readonly #settings: DriveSettings

  constructor(deps: FolderHomeDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const { open, item } = await this.#deps.folders.directory(parent)
    const child = (await open.folder.children(item)).get(name)
    if (child === undefined) throw noSuchFile()
    return attributesOf(open, child)
  }

  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    if (!this.#deps.entries.freshNow()) return undefined
    const place = this.#deps.folders.placeNow(parent)
    if (place?.item.type !== 'directory') return undefined
    const child = place.item.children?.get(name)
    return child === undefined ? undefined : attributesOf(place.open, child)
  }

  async getAttributes(node: NodeId): Promise<Attributes> {
    const top = this.#deps.folders.topNode(node)
    if (top !== undefined) return this.#topAttributes(top)
    const { open, item } = await this.#deps.folders.placeOf(node)
    return attributesOf(open, item)
  }

  #topAttributes(top: FileNode): Attributes {
    return this.withInside(this.#deps.attributes.of(top))
  }

  /** Attributes of a folder of the root, with what is known of its inside. */
  withInside(attributes: Attributes): Attributes {
    const opened = this.#deps.folders.opened(attributes.node)?.folder.top
    if (opened === undefined) return attributes
    return { ...attributes, ...laterTimes(attributes, opened), links: linksOf(opened) }
  }

  async setAttributes(node: NodeId, changes: AttributeChanges): Promise<void> {
    const top = this.#deps.folders.topNode(node)
    if (top !== undefined) {
      await this.#setTopAttributes(top, changes)
      return
    }
    const { open, item } = await this.#deps.folders.placeToChange(node)
    await open.attributes.set(item, changes)
  }

  /** The time of what came into it, or left it, since its own was set stays. */
  async #setTopAttributes(top: FileNode, changes: AttributeChanges): Promise<void> {
    const opened = this.#deps.folders.opened(top.id)?.folder.top
    if (opened === undefined) {
      await this.#deps.attributes.change(top, changes)
      return
    }
    const { mtimeMs } = this.#topAttributes(top)
    const all = { ...changes, mtimeMs: changes.mtimeMs ?? mtimeMs }
    await this.#deps.attributes.change(top, all)
    Object.assign(opened, withChanges(opened, all))
  }

  async truncate(node: NodeId, length: number): Promise<void> {
    const file = await this.open(node, { writable: true, truncate: false })
    try {
      await file.truncate(length)
      await file.fsync()
    } finally {
      await file.close()
    }
  }

  async readDirectory(node: NodeId): Promise<readonly DirectoryEntry[]> {
    const { open, item } = await this.#deps.folders.directory(node)
    const children = await open.folder.children(item)
    return Array.from(children, ([name, { type }]) => ({ name, kind: type }))
  }

  async create(
    parent: NodeId,
    name: string,
    made: MadeAttributes,
    options: CreateOptions,
  ): Promise<Created> {
    const { open, item } = await this.#deps.folders.directory(parent)
    const file = await open.names.createFile(item, name, made)
    const opened = this.#openFile(open, file, { ...options, writable: true })
    return { attributes: attributesOf(open, file), file: opened }
  }

  async createNameless(parent: NodeId, made: MadeAttributes): Promise<Created> {
    const { open, item } = await this.#deps.folders.directory(parent)
    const file = await open.nameless.make(item, made)
    const opened = this.#openFile(open, file, { writable: true })
    return { attributes: attributesOf(open, file), file: opened }
  }

  async link(file: OpenFile, parent: NodeId, name: string): Promise<Attributes> {
    const { open, item } = await this.#deps.folders.directory(parent)
    if (!(file instanceof FolderOpenFile) || !file.isOf(open.folder)) {
      throw new DriveError('cross-device', 'It was made elsewhere.')
    }
    await open.nameless.link(file.item, item, name)
    return attributesOf(open, file.item)
  }

  async makeDirectory(parent: NodeId, name: string, made: MadeAttributes): Promise<void> {
    const { open, item } = await this.#deps.folders.directory(parent)
    await open.names.makeDirectory(item, name, made)
  }

  async makeSymlink(parent: NodeId, name: string, target: string, owner: Owner): Promise<void> {
    const { open, item } = await this.#deps.folders.directory(parent)
    await open.names.makeSymlink(item, name, target, owner)
  }

  async makeNode(
    parent: NodeId,
    name: string,
    made: MadeAttributes,
    special: SpecialNode,
  ): Promise<void> {
    const { open, item } = await this.#deps.folders.directory(parent)
    await open.names.makeNode(item, name, made, special)
  }

  async readSymlink(node: NodeId): Promise<string> {
    const { item } = await this.#deps.folders.placeOf(node)
    if (item.type !== 'symlink') throw new DriveError('invalid', 'This is not a link.')
    return item.target
  }

  async open(node: NodeId, options: OpenOptions): Promise<FolderOpenFile> {
    const { open, item } = await this.#deps.folders.file(node)
    const { content } = item
    if (!options.truncate && content.from === 'archive') refuseFalselyEmpty(content.node)
    const file = this.#openFile(open, item, options)
    try {
      if (options.truncate) await file.truncate(0)
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  #openFile(open: OpenFolder, item: FileItem, mode: OpenMode): FolderOpenFile {
    const { folder, files, replacedAtMs } = open
    const { clock, log, news } = this.#deps
    const file = new FolderOpenFile({ folder, files, clock, log, news }, item, mode)
    file.endIsUnsure = file.append && clock.now() - replacedAtMs < SIZE_TRUSTED_MS
    return file
  }

  async unlink(parent: NodeId, name: string): Promise<NodeId> {
    const { open, item } = await this.#deps.folders.directory(parent)
    return (await open.names.unlink(item, name)).id
  }

  async removeDirectory(parent: NodeId, name: string): Promise<void> {
    const { open, item } = await this.#deps.folders.directory(parent)
    await open.names.removeDirectory(item, name)
  }

  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    const from = await this.#deps.folders.directory(parent)
    const to = await this.#deps.folders.directory(newParent)
    if (from.open !== to.open) {
      throw new DriveError('cross-device', 'Another folder is another bag: this is a copy.')
    }
    await from.open.names.rename(from.item, name, to.item, newName)
  }

  async exchange(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    const from = await this.#deps.folders.directory(parent)
    const to = await this.#deps.folders.directory(newParent)
    if (from.open !== to.open) {
      throw new DriveError('invalid', 'Names of two folders cannot be exchanged.')
    }
    await from.open.names.exchange(from.item, name, to.item, newName)
  }

  listExtended(node: NodeId): readonly string[] {
    const top = this.#deps.folders.topNode(node)
    return top === undefined ? [] : this.#deps.extended.list(top)
  }

  getExtended(node: NodeId, name: string): string {
    const top = this.#deps.folders.topNode(node)
    if (top !== undefined) return this.#deps.extended.get(top, name)
    throw new DriveError('no-attribute', `There is no attribute ${name}.`)
  }

  async setExtended(node: NodeId, name: string, value: string): Promise<void> {
    const top = this.#deps.folders.topNode(node)
    if (top === undefined || this.#deps.extended.settable(name) !== 'kind') {
      return Promise.reject(new DriveError('unsupported', 'Only user.bagfs.kind can be set here.'))
    }
    this.#deps.extended.setKind(top, value)
  }

  /** Starts an empty folder in the root; the caller holds the lock of names. */
  async make(name: string, made: MadeAttributes): Promise<void> {
    const now = this.#deps.clock.now()
    await this.#deps.puts.add(name, NOTHING, {
      description: this.#settings.description,
      ...made,
      mtimeMs: now,
      content: { from: 'folder' },
      isFolder: true,
      changes: { start: 0 },
      phase: 'local',
    })
    this.#deps.entries.resolve(name)
  }

  /** Throws `not-empty` for a folder that something is in. */
  async refuseFull(node: FileNode): Promise<void> {
    const open = await this.#deps.folders.folderOf(node)
    const children = await open.folder.children(open.folder.top)
    if (children.size > 0) throw new DriveError('not-empty', 'The folder is not empty.')
  }

  /** As `refuseFull`, at once. Throws `stale` where something is to be loaded for it. */
  refuseFullNow(node: FileNode): void {
    const open = this.#deps.folders.opened(node.id)
    const children = open?.folder.top.children
    if (open === undefined || open.isOutdated || children === undefined) {
      throw new DriveError('stale', 'The folder has changed meanwhile.')
    }
    if (children.size > 0) throw new DriveError('not-empty', 'The folder is not empty.')
  }

  /** The intents that hold changes of a folder, also of one that is not open. */
  intentsOf({ id, entry }: FileNode): readonly IntentId[] {
    const own = this.#deps.folders.opened(id)?.intentId
    const shown = entry?.kind === 'pending' ? entry.intent.id : undefined
    return [own, shown].filter((each) => each !== undefined)
  }

  /** Runs a task while nothing else changes these folders. */
  async inTurns<Result>(nodes: readonly FileNode[], task: () => Promise<Result>): Promise<Result> {
    const { folders } = this.#deps
    return folders.inTurns(
      nodes.flatMap(({ id }) => folders.opened(id) ?? []),
      task,
    )
  }

  /** Waits until nothing of a folder is on its way to the service. */
  async untilIdle(node: FileNode): Promise<void> {
    const id = this.#deps.folders.opened(node.id)?.intentId
    if (id !== undefined) await this.#deps.uploader.finished(id)
  }

  renamed(from: string, to: string): void {
    this.#deps.localParts.move(from, to)
    this.#deps.accessTimes.move(from, to)
  }

  exchanged(one: string, other: string): void {
    this.#deps.localParts.exchange(one, other)
    this.#deps.accessTimes.exchange(one, other)
  }

  detach(node: FileNode): void {
    this.#deps.folders.detach(node)
  }
}
