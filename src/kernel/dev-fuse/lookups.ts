import type { NodeId } from '../../domain/ids.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import { ROOT } from '../../drive/tree/nodes.ts'
import type { NodeIds, NamePlace } from './node-ids.ts'

/** A name by which the kernel was told of a node. */
export interface KnownName extends NamePlace {
  readonly kind: Attributes['kind']
}

interface Known {
  count: number
  /** The last one. */
  name: KnownName
  /** Of the content that the kernel may have pages of; undefined when it has none. */
  version: string | undefined
}

/** The nodes that the kernel knows: it counts each answer that told it of one, and gives the counts back. */
export class Lookups {
  /** `forget` removes. */
  readonly #known = new Map<NodeId, Known>()
  readonly #ids: NodeIds

  constructor(ids: NodeIds) {
    this.#ids = ids
  }

  /** How many the kernel knows, the root aside. */
  get size(): number {
    return this.#known.size
  }

  /** To be called when an answer with this node was delivered. */
  add(node: NodeId, name: KnownName): void {
    if (node === ROOT) return
    if (name.kind === 'directory') this.#ids.note(node, name)
    const known = this.#known.get(node)
    if (known === undefined) this.#known.set(node, { count: 1, name, version: undefined })
    else {
      known.count += 1
      known.name = name
    }
  }

  /** The last name by which the kernel was told of a node. */
  nameOf(node: NodeId): KnownName | undefined {
    return this.#known.get(node)?.name
  }

  /**
   * The name that the kernel has for a node as something of another kind: a record can turn out to be a folder. The
   * kernel makes a new inode of it then, and that name must not lead to the old one.
   */
  otherwise(node: NodeId, kind: Attributes['kind']): KnownName | undefined {
    const name = this.nameOf(node)
    return name === undefined || name.kind === kind ? undefined : name
  }

  forget(node: NodeId, count: number): void {
    const known = this.#known.get(node)
    if (known === undefined) return
    known.count -= count
    if (known.count > 0) return
    this.#known.delete(node)
    this.#ids.forget(node)
  }

  /** Notes which version is opened; true when what the kernel has of the node is of the same one. */
  isSameVersion(node: NodeId, version: string): boolean {
    const known = this.#known.get(node)
    if (known === undefined) return false
    const isSame = known.version === version
    known.version = version
    return isSame
  }
}
