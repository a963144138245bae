import { DriveError } from '../domain/errors.ts'
import type { HandleId } from '../domain/ids.ts'
import type { FileHandle, FileNode, OpenMode } from './nodes.ts'

const LAST_ID = 0x7fff_ffff

/** Open files by id: 1 to 2^31-1, reused only after all others. */
export class Handles {
  /** `close` removes. */
  readonly #open = new Map<HandleId, FileHandle>()
  #next = 1

  open(node: FileNode, { writable, append = false }: OpenMode): FileHandle {
    const id = this.allocate()
    const handle = { id, node, writable, append, source: undefined, endIsUnsure: false }
    this.#open.set(id, handle)
    node.handles.add(handle)
    return handle
  }

  get(id: HandleId): FileHandle {
    const handle = this.#open.get(id)
    if (handle === undefined) throw new DriveError('bad-handle', 'This file is not open.')
    return handle
  }

  close(handle: FileHandle): void {
    this.#open.delete(handle.id)
    handle.node.handles.delete(handle)
  }

  has(id: HandleId): boolean {
    return this.#open.has(id)
  }

  /** A handle id that is free, also for handles below the root. */
  allocate(): HandleId {
    while (this.#open.has(this.#next as HandleId)) this.#advance()
    const id = this.#next as HandleId
    this.#advance()
    return id
  }

  #advance(): void {
    this.#next = this.#next === LAST_ID ? 1 : this.#next + 1
  }
}
