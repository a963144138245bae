import type { Clock } from '../../domain/clock.ts'
import { DriveError, goneFile, isDriveError, noSuchFile } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Attributes, DirectoryEntry } from '../tree/attributes.ts'
import type { Created, OpenOptions, Home } from '../tree/home.ts'
import type { DriveNode, Nodes } from '../tree/nodes.ts'
import { KeptContent } from './kept-content.ts'
import { VirtualOpenFile, readOnly } from './virtual-open-file.ts'
import type { VirtualDirectory, VirtualEntry, VirtualFile } from './virtual-entry.ts'

interface VirtualDirectoryNode extends DriveNode {
  readonly id: NodeId
  readonly entry: VirtualDirectory
  readonly children: Map<string, VirtualNode>
}

interface VirtualFileNode extends DriveNode {
  readonly id: NodeId
  readonly entry: VirtualFile
  readonly kept: KeptContent
}

type VirtualNode = VirtualDirectoryNode | VirtualFileNode

const DIRECTORY_MODE = 0o500
const FILE_MODE = 0o400
const FILE_MODE_FOR_ALL = 0o444

/** A directory tree, or a file by itself, that the drive makes up: read-only but for what its entries take. */
export class VirtualHome implements Home {
  readonly top: NodeId
  /** A node goes when a look-up no longer finds its entry, or finds no content. */
  readonly #nodes: Nodes
  readonly #clock: Clock
  readonly #startedAtMs: number
  readonly truncate = refused
  readonly makeSymlink = refused
  readonly makeNode = refused
  readonly unlink = refused
  readonly removeDirectory = refused
  readonly rename = refused
  readonly setExtended = refused

  constructor(deps: { readonly nodes: Nodes; readonly clock: Clock }, top: VirtualEntry) {
    this.#nodes = deps.nodes
    this.#clock = deps.clock
    this.#startedAtMs = deps.clock.now()
    this.top = this.#addNode(top).id
  }

  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const directory = this.#directory(parent)
    const node = this.#child(directory, name)
    if (node === undefined) throw noSuchFile()
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

  async open(id: NodeId, options: OpenOptions): Promise<VirtualOpenFile> {
    const node = this.#node(id)
    if (isDirectory(node)) throw new DriveError('is-a-directory', 'This is a directory.')
    // `touch` opens for writing first; what it would write is refused by `write`.
    if (options.truncate || (options.writable && node.entry.touch === undefined)) throw readOnly()
    const shared = await (options.isUncut === true ? node.kept.openFresh() : node.kept.open())
    return new VirtualOpenFile(this.#clock, shared, options)
  }

  /** Only what a directory takes, such as an import. */
  async create(parent: NodeId, name: string): Promise<Created> {
    await this.#add(parent, name, 'file')
    const { node } = await this.lookup(parent, name)
    const file = await this.open(node, { writable: true, truncate: false })
    return { attributes: await this.getAttributes(node), file }
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

  readSymlink(): Promise<string> {
    return Promise.reject(new DriveError('invalid', 'This is not a link.'))
  }

  listExtended(): readonly string[] {
    return []
  }

  getExtended(_node: NodeId, name: string): string {
    throw new DriveError('no-attribute', `There is no attribute ${name}.`)
  }

  #child(directory: VirtualDirectoryNode, name: string): VirtualNode | undefined {
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

  #addNode(entry: VirtualEntry): VirtualNode {
    const id = this.#nodes.nextId()
    // A program reads the size that it was told, see `KeptContent`.
    const base = { id, home: this, top: undefined, path: undefined, sizeChangedAtMs: 0 }
    const node: VirtualNode =
      entry.kind === 'directory'
        ? { ...base, entry, children: new Map() }
        : { ...base, entry, kept: new KeptContent(entry, this.#clock) }
    this.#nodes.add(id, node)
    return node
  }

  #drop(directory: VirtualDirectoryNode, name: string): void {
    const node = directory.children.get(name)
    if (node === undefined) return
    if (isDirectory(node)) for (const child of node.children.keys()) this.#drop(node, child)
    directory.children.delete(name)
    this.#nodes.delete(node.id)
  }

  #node(id: NodeId): VirtualNode {
    const node = this.#nodes.get(id)
    if (!this.#isOwn(node)) throw goneFile()
    return node
  }

  #isOwn(node: DriveNode | undefined): node is VirtualNode {
    return node?.home === this
  }

  #directory(id: NodeId): VirtualDirectoryNode {
    const node = this.#node(id)
    if (!isDirectory(node)) throw new DriveError('not-a-directory', 'This is a file.')
    return node
  }

  #directoryAttributes({ id, entry }: VirtualDirectoryNode): Attributes {
    const mode = entry.add === undefined ? DIRECTORY_MODE : DIRECTORY_MODE | 0o200
    return attributes(id, { kind: 'directory', mode, size: 0, mtimeMs: this.#startedAtMs })
  }
}

function isDirectory(node: VirtualNode): node is VirtualDirectoryNode {
  return node.entry.kind === 'directory'
}

function fileAttributes(
  { id, entry }: VirtualFileNode,
  content: { readonly size: number; readonly mtimeMs: number },
): Attributes {
  const readable = entry.isForAll === true ? FILE_MODE_FOR_ALL : FILE_MODE
  const mode = entry.touch === undefined ? readable : readable | 0o200
  return attributes(id, { kind: 'file', mode, size: content.size, mtimeMs: content.mtimeMs })
}

function attributes(
  node: NodeId,
  known: Pick<Attributes, 'kind' | 'mode' | 'size' | 'mtimeMs'>,
): Attributes {
  return { node, ...known, atimeMs: known.mtimeMs, ctimeMs: known.mtimeMs }
}

function refused(): Promise<never> {
  return Promise.reject(readOnly())
}
