import { DriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Handles } from '../tree/handles.ts'
import type { Nodes } from '../tree/nodes.ts'
import { isIn, type ChangeKind, type MoveGate } from './move-gate.ts'
import type { MoveSource, OpenPath } from './source.ts'

interface LeavingPlaceDeps {
  readonly handles: Pick<Handles, 'all'>
  readonly nodes: Pick<Nodes, 'get' | 'inRoot'>
  readonly gate: MoveGate
}

/** The place that something leaves. Programs that have opened it for writing since the move began are not led to the new one. */
export class LeavingPlace {
  readonly #deps: LeavingPlaceDeps
  readonly #source: Pick<MoveSource, 'path' | 'handles' | 'openNow'>
  #handles: readonly OpenPath[] | undefined
  readonly #reopen: (() => void)[] = []

  constructor(deps: LeavingPlaceDeps, source: Pick<MoveSource, 'path' | 'handles' | 'openNow'>) {
    this.#deps = deps
    this.#source = source
  }

  /** From now on nothing of it is changed, until `letGo`. Throws `busy` where something was opened, or is being changed. */
  hold(): void {
    this.#close()
    this.#refuseChanging()
    this.#handles = this.#source.openNow()
  }

  /** From now on its content is not changed; all else is, until `holdRest`. Throws as `hold`. */
  holdContent(): void {
    this.#close({ isOfContent: true })
    this.#refuseChanging()
  }

  /** After `holdContent`: resolves when nothing of it is being changed any more. */
  async holdRest(): Promise<void> {
    this.#close()
    await this.#deps.gate.untilChanged(this.#source.path)
    this.#handles = this.#source.openNow()
  }

  #close(what: ChangeKind = {}): void {
    this.#reopen.push(this.#deps.gate.close(this.#source.path, what))
  }

  /** Open files that are to go on at the new place. */
  get handles(): readonly OpenPath[] {
    return this.#handles ?? this.#source.handles
  }

  #refuseChanging(): void {
    const { path, handles } = this.#source
    const led = new Set(handles.map(({ id }) => id))
    const isOpen = [...this.#deps.handles.all()].some(
      ([id, { writable, nodeId }]) =>
        writable && !led.has(id) && nodeId !== undefined && this.#isIn(path, nodeId),
    )
    if (!isOpen && !this.#deps.gate.isUnderWay(path)) return
    throw new DriveError('busy', 'A program has opened or changed it while it was moved.')
  }

  /** Changes go on, at the new place where there is one. */
  letGo(): void {
    for (const reopen of this.#reopen.splice(0)) reopen()
  }

  /** The name of a file that stands aside leads to another one, which is what moves. */
  #isIn(top: string, id: NodeId): boolean {
    const { nodes } = this.#deps
    const path = nodes.get(id)?.path
    return path !== undefined && isIn(top, path) && nodes.inRoot(id)?.isAside !== true
  }
}
