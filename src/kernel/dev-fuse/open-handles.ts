import type { HandleId, NodeId } from '../../domain/ids.ts'
import type { Opening } from '../open-descriptors.ts'

/** Open files, by the node that the kernel knows them by, which stays when the drive has them in another folder. */
export class OpenHandles {
  /** `remove` removes. */
  readonly #open = new Map<NodeId, Set<HandleId>>()
  /** Of those that are open for writing; `remove` removes. */
  readonly #openings = new Map<HandleId, Opening>()
  /** Where those were that lost their names; `remove` removes. */
  readonly #removedFrom = new Map<NodeId, NodeId>()

  add(node: NodeId, handle: HandleId, opening?: Opening): void {
    if (opening !== undefined) this.#openings.set(handle, opening)
    const handles = this.#open.get(node)
    if (handles === undefined) this.#open.set(node, new Set([handle]))
    else handles.add(handle)
  }

  openingOf(handle: HandleId): Opening | undefined {
    return this.#openings.get(handle)
  }

  remove(node: NodeId, handle: HandleId): void {
    this.#openings.delete(handle)
    const handles = this.#open.get(node)
    handles?.delete(handle)
    if (handles?.size !== 0) return
    this.#open.delete(node)
    this.#removedFrom.delete(node)
  }

  /** A name of an open file was taken away from a directory, or it was made there without one. */
  noteRemoved(node: NodeId, parent: NodeId): void {
    if (this.#open.has(node)) this.#removedFrom.set(node, parent)
  }

  /** A file without a name got one. */
  noteNamed(node: NodeId): void {
    this.#removedFrom.delete(node)
  }

  /** True while a program has a file open that was removed from this directory. */
  holdRemovedOf(parent: NodeId): boolean {
    return [...this.#removedFrom.values()].includes(parent)
  }

  /** True for an open file that has no name any more. */
  isRemoved(node: NodeId): boolean {
    return this.#removedFrom.has(node)
  }

  /** True while a program may write what a node has, also by a map. */
  isOpenForWriting(node: NodeId): boolean {
    for (const handle of this.#open.get(node) ?? []) if (this.#openings.has(handle)) return true
    return false
  }

  /** One of them. */
  of(node: NodeId): HandleId | undefined {
    return this.#open.get(node)?.values().next().value
  }

  /** Each node, with one of its handles. */
  *all(): Iterable<readonly [NodeId, HandleId]> {
    for (const [node, [handle]] of this.#open) if (handle !== undefined) yield [node, handle]
  }

  get size(): number {
    return this.#open.size
  }
}
