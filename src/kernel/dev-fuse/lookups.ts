import type { NodeId } from '../../domain/ids.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import { ROOT } from '../../drive/tree/nodes.ts'
import type { NodeIds, NamePlace } from './node-ids.ts'

/** A name by which the kernel was told of a node. */
export interface KnownName extends NamePlace {
  readonly kind: Attributes['kind']
}

/** In the place of a digest: the kernel goes by no attributes of it. */
export const NOT_TRUSTED = -1
/** In the place of a digest: the kernel goes by what it made of the attributes itself. */
export const OF_KERNEL = -2

/** What the kernel was told with a node. */
export interface ToldAttributes {
  /** Of the attributes: see `digestOf`. */
  readonly digest: number
  readonly atMs: number
}

/** What the kernel goes by, of a node. */
export interface ToldEntryState extends ToldAttributes {
  readonly isNameTrusted: boolean
  readonly isNameWrong: boolean
}

interface Known extends KnownName {
  count: number
  /** The last name. */
  parent: NodeId
  name: string
  kind: Attributes['kind']
  /** Of the content that the kernel may have pages of; undefined when it has none. */
  version: string | undefined
  digest: number
  /** When it was last told by name, or of its attributes, in ms. */
  atMs: number
  /** Whether the kernel goes by the name without asking. */
  isNameTrusted: boolean
  /** Whether it does so though the name leads to something else by now. */
  isNameWrong: boolean
}

/** The nodes that the kernel knows: it counts each answer that told it of one, and gives the counts back. */
export class Lookups {
  /** `forget` removes. */
  readonly #known = new Map<NodeId, Known>()
  /** By directory and name; `forget`, `move` and `remove` remove. */
  readonly #places = new Map<NodeId, Map<string, NodeId>>()
  readonly #ids: NodeIds

  constructor(ids: NodeIds) {
    this.#ids = ids
  }

  /** How many the kernel knows, the root aside. */
  get size(): number {
    return this.#known.size
  }

  /** To be called when an answer with this node was delivered. */
  add(
    node: NodeId,
    { parent, name, kind }: KnownName,
    { digest, atMs, isNameTrusted }: ToldAttributes & { readonly isNameTrusted: boolean },
  ): void {
    if (node === ROOT) return
    if (kind === 'directory') this.#ids.note(node, { parent, name })
    const known = this.#known.get(node)
    if (known === undefined) {
      const told = { digest, atMs, isNameTrusted, isNameWrong: false }
      this.#known.set(node, { count: 1, parent, name, kind, version: undefined, ...told })
    } else {
      this.#leave(node, known)
      Object.assign(known, { parent, name, kind, digest, atMs, isNameTrusted })
      known.isNameWrong = false
      known.count += 1
    }
    this.#put(node, { parent, name })
  }

  /** The last name by which the kernel was told of a node. */
  nameOf(node: NodeId): KnownName | undefined {
    return this.#known.get(node)
  }

  /** What the kernel has under a name, as far as it was told. */
  at({ parent, name }: NamePlace): NodeId | undefined {
    return this.#places.get(parent)?.get(name)
  }

  /** Names in a directory that the kernel was told. */
  namesIn(parent: NodeId): Iterable<string> {
    return this.#places.get(parent)?.keys() ?? []
  }

  /** What the kernel knows below a directory. */
  *below(parent: NodeId): Iterable<NodeId> {
    const rest = [parent]
    for (let at = rest.pop(); at !== undefined; at = rest.pop()) {
      for (const node of this.#places.get(at)?.values() ?? []) {
        yield node
        if (this.#places.has(node)) rest.push(node)
      }
    }
  }

  /** The kernel has moved a name itself. */
  move(from: NamePlace, to: NamePlace): void {
    const node = this.at(from)
    this.remove(to)
    const known = node === undefined ? undefined : this.#known.get(node)
    if (node === undefined || known === undefined) return
    this.#leave(node, known)
    this.#place(node, known, to)
  }

  /** The kernel has given each of two names what the other had. */
  exchange(one: NamePlace, other: NamePlace): void {
    const [atOne, atOther] = [this.at(one), this.at(other)]
    for (const place of [one, other]) this.remove(place)
    for (const [node, place] of [
      [atOne, other],
      [atOther, one],
    ] as const) {
      const known = node === undefined ? undefined : this.#known.get(node)
      if (node === undefined || known === undefined) continue
      this.#place(node, known, place)
    }
  }

  /** The kernel has taken a name away itself. */
  remove(place: NamePlace): void {
    const node = this.at(place)
    const known = node === undefined ? undefined : this.#known.get(node)
    if (node !== undefined && known !== undefined) this.#leave(node, known)
  }

  /** True when the kernel does not know the node any more. */
  forget(node: NodeId, count: number): boolean {
    const known = this.#known.get(node)
    if (known === undefined) return false
    known.count -= count
    if (known.count > 0) return false
    this.#leave(node, known)
    this.#known.delete(node)
    this.#ids.forget(node)
    return true
  }

  /** The kernel was told attributes of a node. */
  tell(node: NodeId, { digest, atMs }: ToldAttributes): void {
    const known = this.#known.get(node)
    if (known !== undefined) Object.assign(known, { digest, atMs })
  }

  /** The kernel changes attributes itself, as it has written. */
  noteWritten(node: NodeId): void {
    const known = this.#known.get(node)
    if (known !== undefined) known.digest = OF_KERNEL
  }

  /** What the kernel was told last; undefined for what it does not know. */
  told(node: NodeId): ToldEntryState | undefined {
    return this.#known.get(node)
  }

  /** The name by which the kernel has a node leads to something else by now. */
  noteWrongName(node: NodeId): void {
    const known = this.#known.get(node)
    if (known === undefined) return
    known.isNameTrusted = false
    known.isNameWrong = true
  }

  /** Notes which version is opened; true when what the kernel has of the node is of the same one. */
  isSameVersion(node: NodeId, version: string): boolean {
    const known = this.#known.get(node)
    if (known === undefined) return false
    const isSame = known.version === version
    known.version = version
    return isSame
  }

  /** The kernel goes by a name that it moved as long as by the one before. */
  #place(node: NodeId, known: Known, { parent, name }: NamePlace): void {
    known.isNameTrusted ||= known.isNameWrong
    Object.assign(known, { parent, name, isNameWrong: false })
    this.#put(node, { parent, name })
  }

  #put(node: NodeId, { parent, name }: NamePlace): void {
    const names = this.#places.get(parent)
    if (names === undefined) this.#places.set(parent, new Map([[name, node]]))
    else names.set(name, node)
  }

  #leave(node: NodeId, { parent, name }: NamePlace): void {
    const names = this.#places.get(parent)
    if (names?.get(name) !== node) return
    names.delete(name)
    if (names.size === 0) this.#places.delete(parent)
  }
}
