import type { Entry } from '../../namespace/entry.ts'
import type { News } from '../tree/news.ts'
import { FileNode, type Nodes } from '../tree/nodes.ts'

/** The nodes of the root by name. One goes when it is unlinked and closed, or when its name is gone from the namespace. */
export class RootNames {
  readonly #nodes: Nodes
  readonly #news: News
  readonly #isFolder: (entry: Entry | undefined) => boolean
  readonly #byName = new Map<string, FileNode>()
  /** Removed by `takeName`, or when they are unlinked or closed. */
  readonly #aside = new Set<FileNode>()

  constructor(
    { nodes, news }: { readonly nodes: Nodes; readonly news: News },
    kinds: { isFolder(entry: Entry | undefined): boolean },
  ) {
    this.#nodes = nodes
    this.#news = news
    this.#isFolder = (entry) => kinds.isFolder(entry)
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

  /** For a name that the namespace has: it means the same as before. */
  add(name: string, serviceName: string): FileNode {
    const node = this.#make(name, serviceName)
    this.#byName.set(name, node)
    return node
  }

  /** For a name that comes with the node. */
  addNew(name: string): FileNode {
    this.#news.names([name])
    return this.add(name, name)
  }

  /** One that no name leads to: it lives while it is open, or until it is renamed. */
  addNameless(): FileNode {
    return this.#make(undefined, '')
  }

  #make(name: string | undefined, serviceName: string): FileNode {
    const id = this.#nodes.nextId()
    const node = new FileNode({ id, name, serviceName }, this.#isFolder)
    this.#nodes.add(id, node)
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
    this.#nodes.delete(node.id)
  }

  #bind(node: FileNode, name: string): void {
    this.#unbind(node)
    node.name = name
    this.#byName.set(name, node)
    // It was forgotten if it lost its last name before this one.
    this.#nodes.add(node.id, node)
    this.#news.names([name])
  }

  #unbind(node: FileNode): void {
    const { name } = node
    if (name !== undefined && this.#byName.get(name) === node) {
      this.#byName.delete(name)
      this.#news.names([name])
    }
    this.#aside.delete(node)
    node.isAside = false
    node.parting = 'no'
  }
}
