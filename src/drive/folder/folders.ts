import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import { NOTHING } from '../../intents/base.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { AttributeChanges, Attributes, DirectoryEntry } from '../attributes.ts'
import type { Entries } from '../entries.ts'
import type { ExtendedAttributes } from '../extended.ts'
import type { Handles } from '../handles.ts'
import type { FileNode } from '../nodes.ts'
import type { Puts } from '../puts.ts'
import type { RootAttributes } from '../root-attributes.ts'
import type { DriveSettings } from '../settings.ts'
import type { Created, OpenOptions, Subtree } from '../subtree.ts'
import type { FolderHandle } from './folder-files.ts'
import { attributesOf } from './item-attributes.ts'
import { pathOfItem, type FileItem, type Item } from './items.ts'
import type { OpenFolder } from './open-folder.ts'
import type { OpenFolders } from './open-folders.ts'

interface FoldersDeps {
  readonly folders: OpenFolders
  readonly handles: Handles
  readonly entries: Entries
  readonly attributes: RootAttributes
  readonly extended: ExtendedAttributes
  readonly puts: Puts
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly clock: Clock
}

/** A file that is open below some directory. */
export interface OpenPath {
  readonly id: HandleId
  readonly path: string
  readonly writable: boolean
}

/** The inside of folder bags. */
export class Folders implements Subtree {
  readonly #deps: FoldersDeps
  readonly #settings: DriveSettings
  /** `release` removes. */
  readonly #handles = new Map<HandleId, FolderHandle & { readonly open: OpenFolder }>()

  constructor(deps: FoldersDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  owns(node: NodeId): boolean {
    return this.#deps.folders.owns(node)
  }

  ownsHandle(handle: HandleId): boolean {
    return this.#handles.has(handle)
  }

  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const { open, item } = await this.#deps.folders.directory(parent)
    const child = (await open.folder.children(item)).get(name)
    if (child === undefined) throw new DriveError('not-found', 'There is no such file.')
    return attributesOf(open, child)
  }

  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    const place = this.#deps.folders.placeNow(parent)
    if (place?.item.type !== 'directory') return undefined
    const child = place.item.children?.get(name)
    return child === undefined ? undefined : attributesOf(place.open, child)
  }

  async getAttributes(node: NodeId): Promise<Attributes> {
    const top = this.#deps.folders.topNode(node)
    if (top === undefined) {
      const { open, item } = await this.#deps.folders.placeOf(node)
      return attributesOf(open, item)
    }
    const attributes = this.#deps.attributes.of(top)
    const changedAtMs = this.#deps.folders.opened(node)?.folder.top.mtimeMs ?? 0
    return { ...attributes, mtimeMs: Math.max(attributes.mtimeMs, changedAtMs) }
  }

  async setAttributes(node: NodeId, changes: AttributeChanges): Promise<void> {
    const top = this.#deps.folders.topNode(node)
    if (top !== undefined) {
      await this.#deps.attributes.change(top, changes)
      const opened = this.#deps.folders.opened(node)
      if (opened !== undefined)
        opened.folder.top.mtimeMs = changes.mtimeMs ?? opened.folder.top.mtimeMs
      return
    }
    const { open, item } = await this.#deps.folders.placeOf(node)
    await open.names.setAttributes(item, changes)
  }

  /** Open files in a subtree, with their paths below its top. */
  handlesWithin(top: Item): readonly OpenPath[] {
    return [...this.#handles.values()].flatMap(({ id, item, writable }) => {
      const path = pathOfItem(item, top)
      return path === undefined ? [] : [{ id, path, writable }]
    })
  }

  async truncate(node: NodeId, length: number, handle?: HandleId): Promise<void> {
    const { open, item } = await this.#deps.folders.file(node)
    if (handle !== undefined) {
      await open.files.truncate(item, length)
      return
    }
    const opened = await this.open(node, { writable: true, truncate: false })
    try {
      await open.files.truncate(item, length)
      await open.files.persist(item, { closes: true })
    } finally {
      await this.release(opened)
    }
  }

  async readDirectory(node: NodeId): Promise<readonly DirectoryEntry[]> {
    const { open, item } = await this.#deps.folders.directory(node)
    const children = await open.folder.children(item)
    return Array.from(children, ([name, { type }]) => ({ name, kind: type }))
  }

  async create(parent: NodeId, name: string, mode: number): Promise<Created> {
    const { open, item } = await this.#deps.folders.directory(parent)
    const file = await open.names.createFile(item, name, mode & 0o777)
    const handle = this.#openFile(open, file, true)
    return { attributes: attributesOf(open, file), handle }
  }

  async makeDirectory(parent: NodeId, name: string, mode: number): Promise<void> {
    const { open, item } = await this.#deps.folders.directory(parent)
    await open.names.makeDirectory(item, name, mode & 0o777)
  }

  async makeSymlink(parent: NodeId, name: string, target: string): Promise<void> {
    const { open, item } = await this.#deps.folders.directory(parent)
    await open.names.makeSymlink(item, name, target)
  }

  async readSymlink(node: NodeId): Promise<string> {
    const { item } = await this.#deps.folders.placeOf(node)
    if (item.type !== 'symlink') throw new DriveError('invalid', 'This is not a link.')
    return item.target
  }

  async open(node: NodeId, options: OpenOptions): Promise<HandleId> {
    const { open, item } = await this.#deps.folders.file(node)
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
    // Others may go on with the same open file; what they all wrote is whole when it is released.
    if (writable) await open.files.persist(item, { closes: false })
  }

  async fsync(handle: HandleId): Promise<void> {
    const { open, item } = this.#handle(handle)
    await open.files.persist(item, { closes: true })
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

  listExtended(): readonly string[] {
    return []
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
  async make(name: string, mode: number): Promise<void> {
    const now = this.#deps.clock.now()
    await this.#deps.puts.add(name, NOTHING, {
      description: this.#settings.description,
      mode: mode & 0o777,
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

  /** Waits until nothing of a folder is on its way to the service. */
  async settled(node: FileNode): Promise<void> {
    const id = this.#deps.folders.opened(node.id)?.intentId
    if (id !== undefined) await this.#deps.uploader.finished(id)
  }

  /** What is open and written goes to the outbox. */
  async commitAll(): Promise<void> {
    for (const { open, item } of this.#handles.values()) {
      await open.files.persist(item, { closes: true })
    }
  }
}
