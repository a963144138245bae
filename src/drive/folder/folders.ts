import { join } from 'node:path'
import type { BagCache } from '../../content/bag-cache.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { BagId, HandleId, IntentId, NodeId } from '../../domain/ids.ts'
import type { Intent, PutIntent } from '../../domain/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { AttributeChanges, Attributes } from '../attributes.ts'
import type { Committer } from '../commit.ts'
import type { Entries } from '../entries.ts'
import type { ExtendedAttributes } from '../extended.ts'
import type { Handles } from '../handles.ts'
import type { Kinds } from '../kinds.ts'
import type { FileNode, Nodes } from '../nodes.ts'
import type { RootAttributes } from '../root-attributes.ts'
import type { DriveSettings } from '../settings.ts'
import type { Space } from '../space.ts'
import type { Created, OpenOptions, Subtree } from '../subtree.ts'
import type { FolderHandle } from './folder-files.ts'
import type { Folder } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import { attributesOf } from './item-attributes.ts'
import type { DirectoryItem, FileItem, Item } from './items.ts'
import { readJournal } from './journal.ts'
import { nextRound } from './folder-intents.ts'
import { OpenFolder } from './open-folder.ts'

interface FoldersDeps {
  readonly cache: BagCache
  readonly inflated: InflatedFiles
  readonly nodes: Nodes
  readonly handles: Handles
  readonly entries: Entries
  readonly kinds: Kinds
  readonly attributes: RootAttributes
  readonly extended: ExtendedAttributes
  readonly committer: Committer
  readonly space: Space
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly clock: Clock
  readonly log: Logger
}

const MAX_NODES = 1_000_000

interface Place {
  readonly open: OpenFolder
  readonly item: Item
}

/** The inside of folder bags. */
export class Folders implements Subtree {
  readonly #deps: FoldersDeps
  readonly #settings: DriveSettings
  /** Folders that somebody looked into, by the node of their top; `detach` removes. */
  readonly #open = new Map<NodeId, OpenFolder>()
  /** Items by id; a folder takes its items out when it lets go of them. */
  readonly #items = new Map<NodeId, { readonly item: Item; readonly folder: Folder }>()
  /** `release` removes. */
  readonly #handles = new Map<HandleId, FolderHandle & { readonly open: OpenFolder }>()

  constructor(deps: FoldersDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  owns(node: NodeId): boolean {
    return this.#items.has(node) || this.#topNode(node) !== undefined
  }

  ownsHandle(handle: HandleId): boolean {
    return this.#handles.has(handle)
  }

  #topNode(id: NodeId): FileNode | undefined {
    const node = this.#deps.nodes.get(id)
    return node !== undefined && this.#deps.kinds.isFolder(node.entry) ? node : undefined
  }

  /** The folder of a node of the root, with its tree loaded. */
  async #folderOf(node: FileNode): Promise<OpenFolder> {
    if (node.name !== undefined) this.#deps.entries.resolve(node.name)
    const known = this.#open.get(node.id)
    if (known !== undefined && !(known.isOutdated && known.folder.openFiles === 0)) {
      return known.ready()
    }
    known?.close()
    const open = new OpenFolder(
      {
        ...this.#deps,
        limits: { maxNodes: MAX_NODES, maxEntryBytes: this.#settings.maxEntryBytes },
        nextNode: () => this.#deps.nodes.allocate(),
        register: (item, folder) => this.#items.set(item.id, { item, folder }),
        unregister: (item) => this.#items.delete(item.id),
        newIntent: (at, shown, base) => this.#newIntent(at, shown, base),
      },
      { settleMs: this.#settings.folderSettleMs },
      node,
      this.#deps.attributes.of(node),
    )
    this.#open.set(node.id, open)
    return open.ready()
  }

  async #placeOf(id: NodeId): Promise<Place> {
    const top = this.#topNode(id)
    if (top !== undefined) {
      const open = await this.#folderOf(top)
      return { open, item: open.folder.top }
    }
    const found = this.#items.get(id)
    const open = found === undefined ? undefined : this.#open.get(found.folder.node.id)
    if (found === undefined || open === undefined) {
      throw new DriveError('not-found', 'This file is gone.')
    }
    return { open, item: found.item }
  }

  async #directory(id: NodeId): Promise<{ open: OpenFolder; item: DirectoryItem }> {
    const { open, item } = await this.#placeOf(id)
    if (item.type !== 'directory') throw new DriveError('not-a-directory', 'This is a file.')
    return { open, item }
  }

  async #file(id: NodeId): Promise<{ open: OpenFolder; item: FileItem }> {
    const { open, item } = await this.#placeOf(id)
    if (item.type === 'directory') throw new DriveError('is-a-directory', 'This is a directory.')
    if (item.type === 'symlink') throw new DriveError('invalid', 'This is a link.')
    return { open, item }
  }

  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const { open, item } = await this.#directory(parent)
    const child = (await open.folder.children(item)).get(name)
    if (child === undefined) throw new DriveError('not-found', 'There is no such file.')
    return attributesOf(open, child)
  }

  async getAttributes(node: NodeId): Promise<Attributes> {
    const top = this.#topNode(node)
    if (top === undefined) {
      const { open, item } = await this.#placeOf(node)
      return attributesOf(open, item)
    }
    const attributes = this.#deps.attributes.of(top)
    const changedAtMs = this.#open.get(node)?.folder.top.mtimeMs ?? 0
    return { ...attributes, mtimeMs: Math.max(attributes.mtimeMs, changedAtMs) }
  }

  async setAttributes(node: NodeId, changes: AttributeChanges): Promise<void> {
    const top = this.#topNode(node)
    if (top !== undefined) {
      await this.#deps.attributes.change(top, changes)
      return
    }
    const { open, item } = await this.#placeOf(node)
    await open.names.setAttributes(item, changes)
  }

  async truncate(node: NodeId, length: number, handle?: HandleId): Promise<void> {
    const { open, item } = await this.#file(node)
    if (handle !== undefined) {
      await open.files.truncate(item, length)
      return
    }
    const opened = await this.open(node, { writable: true, truncate: false })
    try {
      await open.files.truncate(item, length)
      await open.files.persist(item)
    } finally {
      await this.release(opened)
    }
  }

  async readDirectory(node: NodeId): Promise<readonly string[]> {
    const { open, item } = await this.#directory(node)
    return [...(await open.folder.children(item)).keys()]
  }

  async create(parent: NodeId, name: string, mode: number): Promise<Created> {
    const { open, item } = await this.#directory(parent)
    const file = await open.names.createFile(item, name, mode & 0o777)
    const handle = this.#openFile(open, file, true)
    return { attributes: attributesOf(open, file), handle }
  }

  async makeDirectory(parent: NodeId, name: string, mode: number): Promise<void> {
    const { open, item } = await this.#directory(parent)
    await open.names.makeDirectory(item, name, mode & 0o777)
  }

  async makeSymlink(parent: NodeId, name: string, target: string): Promise<void> {
    const { open, item } = await this.#directory(parent)
    await open.names.makeSymlink(item, name, target)
  }

  async readSymlink(node: NodeId): Promise<string> {
    const { item } = await this.#placeOf(node)
    if (item.type !== 'symlink') throw new DriveError('invalid', 'This is not a link.')
    return item.target
  }

  async open(node: NodeId, options: OpenOptions): Promise<HandleId> {
    const { open, item } = await this.#file(node)
    const handle = this.#openFile(open, item, options.writable)
    try {
      if (options.truncate) await open.files.truncate(item, 0)
      return handle
    } catch (error) {
      await this.release(handle)
      throw error
    }
  }

  #openFile(open: OpenFolder, item: FileItem, writable: boolean): HandleId {
    const id = this.#deps.handles.allocate()
    this.#handles.set(id, Object.assign(open.files.open(id, item, writable), { open }))
    return id
  }

  read(handle: HandleId, buffer: Uint8Array, position: number): number | Promise<number> {
    const opened = this.#handle(handle)
    return opened.open.files.read(opened, buffer, position)
  }

  write(handle: HandleId, bytes: Uint8Array, position: number): number | Promise<number> {
    const opened = this.#handle(handle)
    return opened.open.files.write(opened, bytes, position)
  }

  async flush(handle: HandleId): Promise<void> {
    const { open, item, writable } = this.#handle(handle)
    if (writable) await open.files.persist(item)
  }

  async fsync(handle: HandleId): Promise<void> {
    const { open, item } = this.#handle(handle)
    await open.files.persist(item)
  }

  async release(handle: HandleId): Promise<void> {
    const opened = this.#handle(handle)
    this.#handles.delete(handle)
    await opened.open.files.close(opened)
  }

  #handle(id: HandleId) {
    const handle = this.#handles.get(id)
    if (handle === undefined) throw new DriveError('bad-handle', 'This file is not open.')
    return handle
  }

  async unlink(parent: NodeId, name: string): Promise<NodeId> {
    const { open, item } = await this.#directory(parent)
    return (await open.names.unlink(item, name)).id
  }

  async removeDirectory(parent: NodeId, name: string): Promise<void> {
    const { open, item } = await this.#directory(parent)
    await open.names.removeDirectory(item, name)
  }

  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    const from = await this.#directory(parent)
    const to = await this.#directory(newParent)
    if (from.open !== to.open) {
      throw new DriveError('cross-device', 'Another folder is another bag: this is a copy.')
    }
    await from.open.names.rename(from.item, name, to.item, newName)
  }

  listExtended(): readonly string[] {
    return []
  }

  getExtended(node: NodeId, name: string): string {
    const top = this.#topNode(node)
    if (top !== undefined) return this.#deps.extended.get(top, name)
    throw new DriveError('no-attribute', `There is no attribute ${name}.`)
  }

  async setExtended(node: NodeId, name: string, value: string): Promise<void> {
    const top = this.#topNode(node)
    if (top === undefined || this.#deps.extended.settable(name) !== 'kind') {
      return Promise.reject(new DriveError('unsupported', 'Only user.bagfs.kind can be set here.'))
    }
    this.#deps.extended.setKind(top, value)
  }

  /** Starts an empty folder in the root; the caller holds the lock of names. */
  async make(name: string, mode: number): Promise<void> {
    const now = this.#deps.clock.now()
    const intent: PutIntent = {
      version: 1,
      kind: 'put',
      id: this.#deps.outbox.nextId(),
      name,
      phase: 'local',
      createdAtMs: now,
      description: this.#settings.description,
      mode: mode & 0o777,
      mtimeMs: now,
      content: { from: 'folder' },
      isFolder: true,
      changes: { start: 0 },
      ...this.#deps.committer.withPendingDelete(name, { replaces: [], supersedes: [] }),
      namesakes: this.#deps.committer.namesakesOf(name),
    }
    await this.#deps.outbox.add(intent, { durable: true })
    await this.#deps.committer.dropMergedDeletes(intent)
    this.#deps.entries.resolve(name)
  }

  /**
   * For changes to the bag `base`, while `shown` has the name. When somebody else put that there, both
   * are kept.
   */
  #newIntent(node: FileNode, shown: BagId, base: BagId): PutIntent {
    const { mode, mtimeMs } = this.#deps.attributes.of(node)
    const isOurs = shown === base || this.#isSuccessor(shown, base)
    const bag = isOurs ? shown : base
    const { entry } = node
    return {
      version: 1,
      kind: 'put',
      id: this.#deps.outbox.nextId(),
      name: node.serviceName,
      phase: 'held',
      createdAtMs: this.#deps.clock.now(),
      description: entry?.kind === 'bag' ? entry.record.description : this.#settings.description,
      mode,
      mtimeMs,
      content: { from: 'folder' },
      isFolder: true,
      changes: { base: bag, start: 0 },
      replaces: isOurs && !this.#deps.committer.isShared(bag) ? [bag] : [],
      supersedes: [],
      namesakes: this.#deps.committer.namesakesOf(node.serviceName),
    }
  }

  /** True when the same content went from one bag to the other here (a folder was renamed). */
  #isSuccessor(bag: BagId, before: BagId): boolean {
    return this.#deps.outbox
      .intents()
      .some((put) => put.kind === 'put' && put.bagId === bag && put.replaces.includes(before))
  }

  /** Throws `not-empty` for a folder that something is in. */
  async refuseFull(node: FileNode): Promise<void> {
    const open = await this.#folderOf(node)
    const children = await open.folder.children(open.folder.top)
    if (children.size > 0) throw new DriveError('not-empty', 'The folder is not empty.')
  }

  /** A folder was removed from the root. */
  detach(node: FileNode): void {
    this.#open.get(node.id)?.close()
    this.#open.delete(node.id)
  }

  /** Waits until nothing of a folder is on its way to the service. */
  async settled(node: FileNode): Promise<void> {
    const id = this.#open.get(node.id)?.intentId
    if (id !== undefined) await this.#deps.uploader.finished(id)
  }

  /** Packs the folder of an intent for the uploader; undefined when there is nothing to send. */
  async pack(put: PutIntent, path: string, signal: AbortSignal) {
    const open = await this.#folderOfIntent(put)
    return open.pack(path, signal)
  }

  async committed(put: PutIntent, bagId: BagId): Promise<boolean> {
    const open = await this.#loadedFor(put.id)
    if (open === undefined) return this.#goesOnUnopened(put)
    const goesOn = await open.committed(put, bagId)
    this.#deps.entries.resolve(open.folder.node.name ?? '')
    return goesOn
  }

  #openedFor(id: IntentId): OpenFolder | undefined {
    for (const open of this.#open.values()) if (open.intentId === id) return open
    return undefined
  }

  /** What is being loaded must not take up changes that are finished meanwhile: its end is waited for. */
  async #loadedFor(id: IntentId): Promise<OpenFolder | undefined> {
    try {
      return await this.#openedFor(id)?.ready()
    } catch (error) {
      this.#deps.log.debug({ error: String(error) }, 'The zip was stored without its folder.')
      return undefined
    }
  }

  async #goesOnUnopened(put: PutIntent): Promise<boolean> {
    const next = await this.#recovered(put)
    if (next?.kind === 'put' && next.phase === 'held') await this.#restAnew(next)
    return next?.phase !== 'confirmed'
  }

  async #folderOfIntent(put: PutIntent): Promise<OpenFolder> {
    const opened = this.#openedFor(put.id)
    if (opened !== undefined) return opened.ready()
    const node = this.#nodeOf(put.id)
    const open = node === undefined ? undefined : await this.#folderOf(node)
    if (open?.work.id !== put.id) {
      throw new DriveError('stale', 'The folder of this change is gone.')
    }
    return open
  }

  /** By the intent and not by its name: somebody else may have stored another folder of this name. */
  #nodeOf(id: IntentId): FileNode | undefined {
    const { entries } = this.#deps
    for (const entry of entries.tree().entries()) {
      if (entry.kind === 'pending' && entry.intent.id === id) return entries.resolve(entry.shown)
    }
    return undefined
  }

  /** Changes that an earlier process left go on their way. */
  async recover(): Promise<void> {
    for (const found of this.#deps.outbox.intents()) {
      const intent = found.kind === 'put' ? await this.#recovered(found) : undefined
      if (intent?.kind !== 'put' || intent.changes === undefined) continue
      if (intent.phase === 'held') await this.#restAnew(intent)
      else if (intent.phase === 'waiting') await this.#loadedAtStart(intent)
    }
  }

  /** Once the zip of earlier changes is stored, later ones must show: their folder is loaded before. */
  async #loadedAtStart(intent: PutIntent): Promise<void> {
    try {
      await this.#folderOfIntent(intent)
    } catch (error) {
      this.#deps.log.warn({ name: intent.name, error: String(error) }, 'A folder must wait.')
    }
  }

  /** A folder whose zip cannot be read now (no network) is left to the uploader, which tries again. */
  async #restAnew(intent: PutIntent): Promise<void> {
    try {
      const open = await this.#folderOfIntent(intent)
      open.work.touch()
    } catch (error) {
      this.#deps.log.warn({ name: intent.name, error: String(error) }, 'A folder must wait.')
      await this.#deps.outbox.update(intent.id, (latest) => ({ ...latest, phase: 'waiting' }), {
        durable: false,
      })
    }
  }

  /** A kill may have come between the confirmation of a zip and the next round of later changes. */
  async #recovered(put: PutIntent): Promise<Intent | undefined> {
    const { bagId, changes, phase } = put
    if (phase !== 'confirmed' || bagId === undefined || changes?.packed === undefined) return put
    const { outbox } = this.#deps
    const { operations } = await readJournal(join(outbox.directory(put.id), 'journal.jsonl'))
    const { packed } = changes
    if (operations.length <= packed) return put
    return outbox.update(put.id, (latest) => nextRound(latest, bagId, packed), { durable: true })
  }

  /** What is open and written goes to the outbox. */
  async commitAll(): Promise<void> {
    for (const { open, item } of this.#handles.values()) await open.files.persist(item)
  }

  /** Sends the changes of one folder, or of all, now; answers the intents to wait for. */
  async publish(name?: string): Promise<readonly IntentId[]> {
    const ids: IntentId[] = []
    for (const open of this.#open.values()) {
      if (name !== undefined && open.folder.node.name !== name) continue
      const id = await open.publish()
      if (id !== undefined) ids.push(id)
    }
    return ids
  }

  close(): Promise<void> {
    for (const open of this.#open.values()) open.close()
    this.#open.clear()
    return Promise.resolve()
  }
}
