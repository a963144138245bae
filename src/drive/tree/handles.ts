import { deferred } from '../../domain/deferred.ts'
import { driveCloses, DriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import type { OpenFile } from './open-file.ts'

const LAST_ID = 0x7fff_ffff

/** What a program's handle stands for. */
interface Handle {
  file: OpenFile
  /** What it stood for before its file moved; closed with it. */
  readonly former: OpenFile[]
  /** While its file is being moved. */
  moving: Promise<void> | undefined
  /** Changes under way; each removes itself. */
  readonly running: Set<Promise<unknown>>
}

/**
 * Open files by the handle that a program has: 1 to 2^31-1, reused only after all others. A file that moves to
 * another home keeps its handles. Reads go on while it moves; changes wait, so that none gets lost between the two.
 */
export class Handles {
  /** `release` removes. */
  readonly #open = new Map<HandleId, Handle>()
  /** Those whose file has moved; `release` removes. */
  readonly #moved = new Set<Handle>()
  #next = 1
  #isShut = false

  add(file: OpenFile): HandleId {
    while (this.#open.has(this.#next as HandleId)) this.#advance()
    const id = this.#next as HandleId
    this.#advance()
    this.#open.set(id, { file, former: [], moving: undefined, running: new Set() })
    return id
  }

  #advance(): void {
    this.#next = this.#next === LAST_ID ? 1 : this.#next + 1
  }

  /** Throws `bad-handle` for what is not open. */
  file(id: HandleId): OpenFile {
    return this.#get(id).file
  }

  #get(id: HandleId): Handle {
    const handle = this.#open.get(id)
    if (handle === undefined) throw new DriveError('bad-handle', 'This file is not open.')
    return handle
  }

  /** False once the program is done with it. */
  isOpen(id: HandleId): boolean {
    return this.#open.has(id)
  }

  *all(): Iterable<readonly [HandleId, OpenFile]> {
    for (const [id, { file }] of this.#open) yield [id, file]
  }

  /** True for a node from which an open file has moved to another place: what is written to it then is in no file. */
  hasLeft(node: NodeId): boolean {
    return [...this.#moved].some(
      ({ file, former }) => file.nodeId !== node && former.some(({ nodeId }) => nodeId === node),
    )
  }

  /** True while changes have to wait. */
  isMoving(id: HandleId): boolean {
    return this.#open.get(id)?.moving !== undefined
  }

  /** Makes a change of an open file: at once, or after the move that is under way. */
  change<Result>(
    id: HandleId,
    task: (file: OpenFile) => Result | Promise<Result>,
  ): Result | Promise<Result> {
    this.#refuseShut()
    const handle = this.#get(id)
    if (handle.moving !== undefined) return this.#changeLater(handle, task)
    return changeNow(handle, task)
  }

  async #changeLater<Result>(
    handle: Handle,
    task: (file: OpenFile) => Result | Promise<Result>,
  ): Promise<Result> {
    while (handle.moving !== undefined) await handle.moving
    this.#refuseShut()
    return changeNow(handle, task)
  }

  #refuseShut(): void {
    if (this.#isShut) throw driveCloses()
  }

  /** From now on each change is refused as `interrupted`: the drive is being closed. */
  shut(): void {
    this.#isShut = true
  }

  /** Runs a move while nothing changes these files, and no other move. Those that are closed before it begins are left out. */
  async during<Result>(ids: readonly HandleId[], move: () => Promise<Result>): Promise<Result> {
    const { promise, resolve } = deferred()
    const stillOpen = (): Handle[] => ids.flatMap((id) => this.#open.get(id) ?? [])
    let handles = stillOpen()
    for (let other = movingOf(handles); other !== undefined; other = movingOf(handles)) {
      await other
      handles = stillOpen()
    }
    for (const handle of handles) handle.moving = promise
    try {
      for (const { running } of handles) await Promise.allSettled([...running])
      return await move()
    } finally {
      for (const handle of handles) handle.moving = undefined
      resolve()
    }
  }

  /** The file has moved: the handle stands for `file` from now on. Closes it where the program is done with the handle. */
  async moveTo(id: HandleId, file: OpenFile): Promise<void> {
    const handle = this.#open.get(id)
    if (handle === undefined) {
      await file.close()
      return
    }
    handle.former.unshift(handle.file)
    handle.file = file
    this.#moved.add(handle)
  }

  /** The program is done with a handle; rejects with what closing the file rejects with. */
  async release(id: HandleId): Promise<void> {
    await this.change(id, async () => {
      const handle = this.#get(id)
      const { file, former } = handle
      this.#open.delete(id)
      const closed = await Promise.allSettled([file, ...former].map((each) => each.close()))
      this.#moved.delete(handle)
      for (const each of closed) if (each.status === 'rejected') throw each.reason
    })
  }
}

function movingOf(handles: readonly Handle[]): Promise<void> | undefined {
  return handles.find(({ moving }) => moving !== undefined)?.moving
}

function changeNow<Result>(
  handle: Handle,
  task: (file: OpenFile) => Result | Promise<Result>,
): Result | Promise<Result> {
  const result = task(handle.file)
  return result instanceof Promise ? watch(handle, result) : result
}

async function watch<Result>({ running }: Handle, change: Promise<Result>): Promise<Result> {
  running.add(change)
  try {
    return await change
  } finally {
    running.delete(change)
  }
}
