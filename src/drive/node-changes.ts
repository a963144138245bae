import { join } from 'node:path'
import { goneFile } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { ChangeKind, MoveGate } from './moves/move-gate.ts'
import type { Handles } from './tree/handles.ts'
import type { Nodes } from './tree/nodes.ts'

/** A change that may be one of the bytes of a file. */
export const OF_CONTENT: ChangeKind = { isOfContent: true }

interface NodeChangesDeps {
  readonly gate: MoveGate
  readonly nodes: Pick<Nodes, 'get'>
  readonly handles: Pick<Handles, 'hasLeft'>
}

/** Makes changes of nodes and names: not while what they are of moves to another place, and not at one that it has left. */
export class NodeChanges {
  readonly #deps: NodeChangesDeps

  constructor(deps: NodeChangesDeps) {
    this.#deps = deps
  }

  /** Makes a change of a node. */
  of<Result>(node: NodeId, task: () => Promise<Result>, what?: ChangeKind): Promise<Result> {
    const change = (): Promise<Result> => {
      this.#refuseLeft(node)
      return task()
    }
    return this.#deps.gate.change(() => this.#pathOf(node), change, what)
  }

  /** Makes a change of a name in a directory. */
  ofName<Result>(
    parent: NodeId,
    name: string,
    task: () => Promise<Result>,
    what?: ChangeKind,
  ): Promise<Result> {
    const pathNow = (): string | undefined => {
      const path = this.#pathOf(parent)
      return path === undefined ? path : join(path, name)
    }
    return this.#deps.gate.change(pathNow, task, what)
  }

  /** Makes a change of names in two directories. */
  ofBoth<Result>(one: NodeId, other: NodeId, task: () => Promise<Result>): Promise<Result> {
    return this.#deps.gate.changeAll([() => this.#pathOf(one), () => this.#pathOf(other)], task)
  }

  /** Resolves when a node is at a place that it does not leave now. */
  async settled(node: NodeId): Promise<void> {
    await this.#deps.gate.untilOpen(() => this.#pathOf(node))
    this.#refuseLeft(node)
  }

  #refuseLeft(node: NodeId): void {
    if (this.#deps.handles.hasLeft(node)) throw goneFile()
  }

  #pathOf(node: NodeId): string | undefined {
    return this.#deps.nodes.get(node)?.path
  }
}
