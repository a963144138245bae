import type { NodeId } from '../../domain/ids.ts'

/** A name in a directory that the kernel knows. */
export interface NamePlace {
  readonly parent: NodeId
  readonly name: string
}

/**
 * Nodes by the ids that the kernel has for them, where the drive has others. For the drive a directory becomes another
 * one when it moves into another folder, or when another machine stored its folder anew. For the kernel, and for a
 * program that stays in it, it is the one of its name. So it keeps the id that the kernel has, and is found again by
 * its name. An open file that moves keeps its id too: under a second one the kernel would have two sizes of it.
 */
export class NodeIds {
  /** Where each directory is that the kernel knows; `forget` and `remove` remove. */
  readonly #places = new Map<NodeId, NamePlace>()
  readonly #byPlace = new Map<string, NodeId>()
  /** Those that have another id in the drive; `forget` and `lead` remove. */
  readonly #inDrive = new Map<NodeId, NodeId>()
  readonly #inKernel = new Map<NodeId, NodeId>()

  /** The id that the drive has for a node of the kernel, as far as it is known. */
  inDrive(node: NodeId): NodeId {
    return this.#inDrive.get(node) ?? node
  }

  /** The id that the kernel has, or is to have, for a node of the drive. */
  inKernel(node: NodeId): NodeId {
    return this.#inKernel.get(node) ?? node
  }

  placeOf(node: NodeId): NamePlace | undefined {
    return this.#places.get(node)
  }

  at(place: NamePlace): NodeId | undefined {
    return this.#byPlace.get(keyOf(place))
  }

  /** The kernel was told of a directory under a name. */
  note(node: NodeId, place: NamePlace): void {
    this.#leave(node)
    this.#places.set(node, place)
    this.#byPlace.set(keyOf(place), node)
  }

  /** A node of the kernel is this one of the drive now. */
  lead(node: NodeId, toDrive: NodeId): void {
    this.#endLead(node)
    if (node === toDrive) return
    this.#inDrive.set(node, toDrive)
    // One that the kernel knows under its own id, too, keeps it.
    if (!this.#places.has(toDrive)) this.#inKernel.set(toDrive, node)
  }

  /** What was at a place is at another one, instead of what was there. */
  move(from: NamePlace, to: NamePlace): void {
    this.remove(to)
    const node = this.at(from)
    if (node !== undefined) this.note(node, to)
  }

  /** Each of two places has what was at the other. */
  exchange(one: NamePlace, other: NamePlace): void {
    const [atOne, atOther] = [this.at(one), this.at(other)]
    for (const place of [one, other]) this.remove(place)
    if (atOne !== undefined) this.note(atOne, other)
    if (atOther !== undefined) this.note(atOther, one)
  }

  /** Nothing is at a place any more. */
  remove(place: NamePlace): void {
    const node = this.at(place)
    if (node !== undefined) this.#leave(node)
  }

  forget(node: NodeId): void {
    this.#leave(node)
    this.#endLead(node)
  }

  #leave(node: NodeId): void {
    const place = this.#places.get(node)
    if (place === undefined) return
    this.#places.delete(node)
    if (this.at(place) === node) this.#byPlace.delete(keyOf(place))
  }

  #endLead(node: NodeId): void {
    const led = this.#inDrive.get(node)
    if (led === undefined) return
    this.#inDrive.delete(node)
    if (this.#inKernel.get(led) === node) this.#inKernel.delete(led)
  }
}

function keyOf({ parent, name }: NamePlace): string {
  return `${parent}/${name}`
}
