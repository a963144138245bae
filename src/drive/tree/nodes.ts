import type { BagId, NodeId } from '../../domain/ids.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { OpenFile } from './open-file.ts'
import { SIZE_TRUSTED_MS } from './size-trust.ts'
import type { StagedFile } from './staged-file.ts'

export const ROOT = 1 as NodeId

/**
 * A file of the drive's root. It keeps its id across renames, and lives on unlinked while open. An open
 * file stays the version that was opened: when another machine stores another one under its name, that is
 * another node, and this one stands aside.
 */
export class FileNode {
  readonly id: NodeId
  /** Name in the drive; undefined once unlinked or replaced, and before one is given. */
  name: string | undefined
  /** Name as the service gets it. */
  serviceName: string
  /** True while its name shows what another machine did; what is written to it takes the name back. */
  isAside = false
  /** Whether the kernel knows its open files apart from its name: see `Entries.onParting`. */
  parting: 'no' | 'asked' | 'done' = 'no'
  /** What the namespace last said of it. */
  entry: Entry | undefined
  /** Content written here and not yet let go of. */
  staged: StagedFile | undefined
  /** When its size last changed other than by writing here, in milliseconds since the epoch. */
  sizeChangedAtMs = 0
  /** The size that its bag was last said to have, and when: the kernel goes by that for a while. */
  told: { readonly bagId: BagId; readonly size: number; readonly atMs: number } | undefined
  readonly handles = new Set<OpenFile>()

  constructor(id: NodeId, name: string | undefined, serviceName: string) {
    this.id = id
    this.name = name
    this.serviceName = serviceName
  }

  /** Notes the size that is told of its bag now. */
  tell(bagId: BagId, size: number, nowMs: number): void {
    if (this.isToldOtherwise(bagId, size, nowMs)) this.sizeChangedAtMs = nowMs
    this.told = { bagId, size, atMs: nowMs }
  }

  /** True when another size of this bag was told so lately that the kernel may go by it. */
  isToldOtherwise(bagId: BagId, size: number, nowMs: number): boolean {
    const { told } = this
    if (told?.bagId !== bagId || told.size === size) return false
    return nowMs - told.atMs < SIZE_TRUSTED_MS
  }

  /** True while it holds what no intent promises yet. */
  get hasUnpromised(): boolean {
    return this.staged?.hasUnpromised === true
  }
}

/** The nodes that are known by id, and those of the root by name. */
export class Nodes {
  /** Entries go when a node is unlinked and closed, or when its name is gone from the namespace. */
  readonly #byId = new Map<NodeId, FileNode>()
  readonly #byName = new Map<string, FileNode>()
  /** Removed by `takeName`, or when they are unlinked or closed. */
  readonly #aside = new Set<FileNode>()
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

  /** Nodes that their name leads to. */
  namedAll(): Iterable<FileNode> {
    return this.#byName.values()
  }

  /** Nodes whose content has a name to go to: those with a name, and those that stand aside. */
  all(): readonly FileNode[] {
    return [...this.#byName.values(), ...this.#aside]
  }

  /** A node that stands aside. */
  findAside(isMeant: (node: FileNode) => boolean): FileNode | undefined {
    for (const node of this.#aside) if (isMeant(node)) return node
    return undefined
  }

  add(name: string, serviceName: string): FileNode {
    const node = new FileNode(this.allocate(), name, serviceName)
    this.#byId.set(node.id, node)
    this.#byName.set(name, node)
    return node
  }

  /** One that no name leads to: it lives while it is open, or until it is renamed. */
  addNameless(): FileNode {
    const node = new FileNode(this.allocate(), undefined, '')
    this.#byId.set(node.id, node)
    return node
  }

  /** Gives a node another name; a node that had this name is unlinked. */
  rename(node: FileNode, name: string, serviceName: string): void {
    const replaced = this.#byName.get(name)
    if (replaced !== undefined && replaced !== node) this.unlink(replaced)
    node.serviceName = serviceName
    this.#bind(node, name)
  }

  /** Gives each of two nodes the name of the other. */
  exchange(one: FileNode, other: FileNode): void {
    const [given, taken] = [one, other].map(({ name, serviceName }) => ({ name, serviceName }))
    for (const node of [one, other]) this.#unbind(node)
    this.#take(one, taken)
    this.#take(other, given)
  }

  #take(node: FileNode, from: Pick<FileNode, 'name' | 'serviceName'> | undefined): void {
    if (from?.name === undefined) return
    node.serviceName = from.serviceName
    this.takeName(node, from.name)
  }

  /** Another machine changed what the name means: programs keep what they opened, and can still write it. */
  standAside(node: FileNode): void {
    this.#unbind(node)
    node.isAside = true
    for (const handle of node.handles) handle.endIsUnsure = true
    this.#aside.add(node)
    this.forgetIfUnused(node)
  }

  /** Leads a name to a node that stood aside; one that had the name stands aside then. */
  takeName(node: FileNode, name: string): void {
    const other = this.#byName.get(name)
    if (other !== undefined && other !== node) this.standAside(other)
    this.#bind(node, name)
  }

  /** Takes the name away; the node stays while it is open. */
  unlink(node: FileNode): void {
    this.#unbind(node)
    node.name = undefined
    this.forgetIfUnused(node)
  }

  /** To be called when a handle was closed. */
  forgetIfUnused(node: FileNode): void {
    if (node.handles.size > 0) return
    node.parting = 'no'
    if (node.name !== undefined && (!node.isAside || node.hasUnpromised)) return
    this.#unbind(node)
    node.name = undefined
    this.#byId.delete(node.id)
  }

  #bind(node: FileNode, name: string): void {
    this.#unbind(node)
    node.name = name
    this.#byName.set(name, node)
  }

  #unbind(node: FileNode): void {
    const { name } = node
    if (name !== undefined && this.#byName.get(name) === node) this.#byName.delete(name)
    this.#aside.delete(node)
    node.isAside = false
    node.parting = 'no'
  }
}
