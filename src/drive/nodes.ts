import type { HandleId, NodeId } from '../domain/ids.ts'
import type { Entry } from '../namespace/entry.ts'
import type { Source } from './source.ts'
import type { StagedFile } from './staged-file.ts'

export const ROOT = 1 as NodeId

/** An open file. `source` is what it reads while nothing is staged for its node. */
export interface FileHandle {
  readonly id: HandleId
  readonly node: FileNode
  readonly writable: boolean
  /** Opened at the first read or length, so that an open for writing costs no request. */
  source: Source | undefined
  /** Content that this handle keeps although its node has moved on. */
  pinned: StagedFile | undefined
}

/** A file of the drive's root. It keeps its id across renames, and lives on unlinked while open. */
export class FileNode {
  readonly id: NodeId
  /** Name in the drive; undefined once unlinked or replaced. */
  name: string | undefined
  /** Name as the service gets it. */
  serviceName: string
  /** What the namespace last said of it. */
  entry: Entry | undefined
  /** Content written here and not yet let go of. */
  staged: StagedFile | undefined
  /** When its size last changed other than by writing here, in milliseconds since the epoch. */
  sizeChangedAtMs = 0
  readonly handles = new Set<FileHandle>()

  constructor(id: NodeId, name: string, serviceName: string) {
    this.id = id
    this.name = name
    this.serviceName = serviceName
  }

  /** True while it holds what no intent promises yet. */
  get isDraft(): boolean {
    return this.staged?.dirty === true
  }
}

/** The nodes that are known by id, and those of the root by name. */
export class Nodes {
  /** Entries go when a node is unlinked and closed, or when its name is gone from the namespace. */
  readonly #byId = new Map<NodeId, FileNode>()
  readonly #byName = new Map<string, FileNode>()
  #nextId: number = ROOT + 1

  get(id: NodeId): FileNode | undefined {
    return this.#byId.get(id)
  }

  /** A new node id, also for nodes below the root. */
  allocate(): NodeId {
    this.#nextId += 1
    return (this.#nextId - 1) as NodeId
  }

  named(name: string): FileNode | undefined {
    return this.#byName.get(name)
  }

  /** Nodes that have a name, for the overlay of drafts and for changes of the listing. */
  all(): Iterable<FileNode> {
    return this.#byName.values()
  }

  add(name: string, serviceName: string): FileNode {
    const node = new FileNode(this.allocate(), name, serviceName)
    this.#byId.set(node.id, node)
    this.#byName.set(name, node)
    return node
  }

  /** Gives a node another name; a node that had this name is unlinked. */
  rename(node: FileNode, name: string, serviceName: string): void {
    const replaced = this.#byName.get(name)
    if (replaced !== undefined && replaced !== node) this.unlink(replaced)
    if (node.name !== undefined) this.#byName.delete(node.name)
    node.name = name
    node.serviceName = serviceName
    this.#byName.set(name, node)
  }

  /** Takes the name away; the node stays while it is open. */
  unlink(node: FileNode): void {
    if (node.name !== undefined) this.#byName.delete(node.name)
    node.name = undefined
    this.forgetIfUnused(node)
  }

  forgetIfUnused(node: FileNode): void {
    if (node.name === undefined && node.handles.size === 0) this.#byId.delete(node.id)
  }
}
