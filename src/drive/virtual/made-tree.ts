import type { Clock } from '../../domain/clock.ts'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import type { Attributes, DirectoryEntry } from '../attributes.ts'
import type { Created, OpenOptions, Subtree } from '../subtree.ts'
import { KeptContent, type SharedContent } from './kept-content.ts'
import type { MadeDirectory, MadeEntry, MadeFile } from './made-entry.ts'

/** Where a tree gets its ids: the counters of the drive. */
export interface Ids {
  nextNode(): NodeId
  nextHandle(): HandleId
}

interface VirtualDirectory {
  readonly id: NodeId
  readonly entry: MadeDirectory
  readonly children: Map<string, MadeNode>
}

interface VirtualFile {
  readonly id: NodeId
  readonly entry: MadeFile
  readonly kept: KeptContent
}

type MadeNode = VirtualDirectory | VirtualFile

interface OpenFile {
  readonly shared: SharedContent
  isUnread: boolean
}

const DIRECTORY_MODE = 0o500
const FILE_MODE = 0o400

/** A directory tree that the drive makes up: read-only but for what its entries take. */
export class MadeTree implements Subtree {
  readonly top: NodeId
  readonly #ids: Ids
  readonly #clock: Clock
  /** A node goes when a look-up no longer finds its entry, or finds no content. */
  readonly #nodes = new Map<NodeId, MadeNode>()
  /** `release` removes. */
  readonly #open = new Map<HandleId, OpenFile>()
  readonly #startedAtMs: number

  constructor(deps: { readonly ids: Ids; readonly clock: Clock }, top: MadeDirectory) {
    this.#ids = deps.ids
    this.#clock = deps.clock
    this.#startedAtMs = deps.clock.now()
    this.top = this.#addNode(top).id
  }

  owns(node: NodeId): boolean {
    return this.#nodes.has(node)
  }

  ownsHandle(handle: HandleId): boolean {
    return this.#open.has(handle)
  }

  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const directory = this.#directory(parent)
    const node = this.#child(directory, name)
    if (node === undefined) throw new DriveError('not-found', 'There is no such file.')
    if (isDirectory(node)) return this.#directoryAttributes(node)
    try {
      return fileAttributes(node, await node.kept.glance())
    } catch (error) {
      if (isDriveError(error, 'gone', 'not-found')) this.#drop(directory, name)
      throw error
    }
  }

  async getAttributes(id: NodeId): Promise<Attributes> {
    const node = this.#node(id)
    return isDirectory(node)
      ? this.#directoryAttributes(node)
      : fileAttributes(node, await node.kept.tell())
  }

  readDirectory(id: NodeId): Promise<readonly DirectoryEntry[]> {
    return Promise.resolve().then(() => {
      const { entry } = this.#directory(id)
      return entry.names().map((name) => ({ name, kind: entry.find(name)?.kind }))
    })
  }

  async open(id: NodeId, options: OpenOptions): Promise<HandleId> {
    const node = this.#node(id)
    if (isDirectory(node)) throw new DriveError('is-a-directory', 'This is a directory.')
    // `touch` opens for writing first; what it would write is refused by `write`.
    if (options.truncate || (options.writable && node.entry.touch === undefined)) throw readOnly()
    const shared = await node.kept.open()
    shared.unread += 1
    const handle = this.#ids.nextHandle()
    this.#open.set(handle, { shared, isUnread: true })
    return handle
  }

  read(handle: HandleId, buffer: Uint8Array, position: number): number | Promise<number> {
    const file = this.#handle(handle)
    const { source } = file.shared.content
    const count = source.readNow(buffer, position)
    if (count === undefined) return this.#readLater(file, buffer, position)
    noteRead(file, position + count)
    return count
  }

  async #readLater(file: OpenFile, buffer: Uint8Array, position: number): Promise<number> {
    const count = await file.shared.content.source.read(buffer, position)
    noteRead(file, position + count)
    return count
  }

  release(handle: HandleId): Promise<void> {
    return Promise.resolve().then(() => {
      const file = this.#handle(handle)
      this.#open.delete(handle)
      noteRead(file, Infinity)
      file.shared.release()
    })
  }

  /** Only what a directory takes, such as an import. */
  async create(parent: NodeId, name: string): Promise<Created> {
    await this.#add(parent, name, 'file')
    const { node } = await this.lookup(parent, name)
    const handle = await this.open(node, { writable: true, truncate: false })
    return { attributes: await this.getAttributes(node), handle }
  }

  async makeDirectory(parent: NodeId, name: string): Promise<void> {
    await this.#add(parent, name, 'directory')
  }

  async #add(parent: NodeId, name: string, kind: 'file' | 'directory'): Promise<void> {
    const { entry } = this.#directory(parent)
    if (entry.add === undefined) throw readOnly()
    await entry.add(name, kind)
  }

  /** chmod is refused; new times are what `touch` wants. */
  async setAttributes(id: NodeId, changes: { readonly mode?: number }): Promise<void> {
    const node = this.#node(id)
    if (isDirectory(node) || node.entry.touch === undefined || changes.mode !== undefined) {
      throw readOnly()
    }
    await node.entry.touch()
  }

  truncate(): Promise<void> {
    return refused()
  }

  makeSymlink(): Promise<void> {
    return refused()
  }

  readSymlink(): Promise<string> {
    return Promise.reject(new DriveError('invalid', 'This is not a link.'))
  }

  write(): Promise<number> {
    return refused()
  }

  flush(): Promise<void> {
    return Promise.resolve()
  }

  fsync(): Promise<void> {
    return Promise.resolve()
  }

  unlink(): Promise<NodeId> {
    return refused()
  }

  removeDirectory(): Promise<void> {
    return refused()
  }

  rename(): Promise<void> {
    return refused()
  }

  listExtended(): readonly string[] {
    return []
  }

  getExtended(_node: NodeId, name: string): string {
    throw new DriveError('no-attribute', `There is no attribute ${name}.`)
  }

  setExtended(): Promise<void> {
    return refused()
  }

  #child(directory: VirtualDirectory, name: string): MadeNode | undefined {
    const entry = directory.entry.find(name)
    if (entry === undefined) {
      this.#drop(directory, name)
      return undefined
    }
    const known = directory.children.get(name)
    if (known?.entry === entry) return known
    this.#drop(directory, name)
    const node = this.#addNode(entry)
    directory.children.set(name, node)
    return node
  }

  #addNode(entry: MadeEntry): MadeNode {
    const id = this.#ids.nextNode()
    const node: MadeNode =
      entry.kind === 'directory'
        ? { id, entry, children: new Map() }
        : { id, entry, kept: new KeptContent(entry, this.#clock) }
    this.#nodes.set(id, node)
    return node
  }

  #drop(directory: VirtualDirectory, name: string): void {
    const node = directory.children.get(name)
    if (node === undefined) return
    if (isDirectory(node)) for (const child of node.children.keys()) this.#drop(node, child)
    directory.children.delete(name)
    this.#nodes.delete(node.id)
  }

  #node(id: NodeId): MadeNode {
    const node = this.#nodes.get(id)
    if (node === undefined) throw new DriveError('not-found', 'This file is gone.')
    return node
  }

  #directory(id: NodeId): VirtualDirectory {
    const node = this.#node(id)
    if (!isDirectory(node)) throw new DriveError('not-a-directory', 'This is a file.')
    return node
  }

  #handle(id: HandleId): OpenFile {
    const file = this.#open.get(id)
    if (file === undefined) throw new DriveError('bad-handle', 'This file is not open.')
    return file
  }

  #directoryAttributes({ id, entry }: VirtualDirectory): Attributes {
    const mode = entry.add === undefined ? DIRECTORY_MODE : DIRECTORY_MODE | 0o200
    return attributes(id, { kind: 'directory', mode, size: 0, mtimeMs: this.#startedAtMs })
  }
}

function isDirectory(node: MadeNode): node is VirtualDirectory {
  return node.entry.kind === 'directory'
}

function noteRead(file: OpenFile, end: number): void {
  if (!file.isUnread || end < file.shared.content.size) return
  file.isUnread = false
  file.shared.unread -= 1
}

function fileAttributes(
  { id, entry }: VirtualFile,
  content: { readonly size: number; readonly mtimeMs: number },
): Attributes {
  const mode = entry.touch === undefined ? FILE_MODE : FILE_MODE | 0o200
  return attributes(id, { kind: 'file', mode, size: content.size, mtimeMs: content.mtimeMs })
}

function attributes(
  node: NodeId,
  known: Pick<Attributes, 'kind' | 'mode' | 'size' | 'mtimeMs'>,
): Attributes {
  return { node, ...known, atimeMs: known.mtimeMs, ctimeMs: known.mtimeMs }
}

function readOnly(): DriveError {
  return new DriveError('not-permitted', 'The drive makes this up: it can only be read.')
}

function refused(): Promise<never> {
  return Promise.reject(readOnly())
}
