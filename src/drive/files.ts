import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Committer } from './commit.ts'
import type { Contents } from './contents.ts'
import type { Entries } from './entries.ts'
import type { Handles } from './handles.ts'
import type { KeyedLock } from '../domain/keyed-lock.ts'
import type { FileHandle, FileNode, Nodes } from './nodes.ts'
import type { OpenOptions } from './subtree.ts'
import type { Source } from './source.ts'
import type { Space } from './space.ts'
import type { StagedFile } from './staged-file.ts'

interface FilesDeps {
  readonly contents: Contents
  readonly entries: Entries
  readonly nodes: Nodes
  readonly handles: Handles
  readonly committer: Committer
  readonly outbox: Outbox
  readonly space: Space
  /** Held while the content of a node changes hands: staging and committing. */
  readonly nodeLocks: KeyedLock<FileNode>
  readonly clock: Clock
  readonly log: Logger
  readonly modeOf: (node: FileNode) => number
}

/** How long a kernel may go by a size that it heard before: it appends there, and asks for no other. */
const SIZE_TRUSTED_MS = 2_000

/** Open files: reading, and writing into staged content. */
export class Files {
  readonly #deps: FilesDeps

  constructor(deps: FilesDeps) {
    this.#deps = deps
  }

  /** Opens what a node is now; waits until its true length is known, so that no reader is cut short. */
  async open(node: FileNode, options: OpenOptions): Promise<FileHandle> {
    const handle = this.#deps.handles.open(node, options)
    try {
      if (options.truncate) await this.#stageEmpty(node, this.#deps.modeOf(node))
      else if (node.staged === undefined) await this.#learnLength(handle)
      const sinceChange = this.#deps.clock.now() - node.sizeChangedAtMs
      handle.endIsUnsure = options.append === true && sinceChange < SIZE_TRUSTED_MS
      return handle
    } catch (error) {
      await this.release(handle)
      throw error
    }
  }

  /** Makes an empty file under a new name, or empties the old one. */
  async create(node: FileNode, mode: number): Promise<FileHandle> {
    const handle = this.#deps.handles.open(node, { writable: true })
    try {
      await this.#stageEmpty(node, mode)
      return handle
    } catch (error) {
      await this.release(handle)
      throw error
    }
  }

  async #learnLength(handle: FileHandle): Promise<void> {
    const { node } = handle
    const { entry } = node
    if (entry === undefined) throw new DriveError('not-found', 'This file is gone.')
    const shown = this.#deps.contents.sizeOf(entry)
    const length = await this.#sourceOf(handle).length()
    if (length !== shown) node.sizeChangedAtMs = this.#deps.clock.now()
  }

  /** Bytes read; a number at once when the bytes are here, else a promise. 0 at the end. */
  read(handle: FileHandle, buffer: Uint8Array, position: number): number | Promise<number> {
    const source = this.#sourceOf(handle)
    return source.readNow(buffer, position) ?? source.read(buffer, position)
  }

  #sourceOf(handle: FileHandle): Source {
    const { node } = handle
    if (node.staged !== undefined) return node.staged
    if (handle.source !== undefined) return handle.source
    if (node.entry === undefined) throw new DriveError('not-found', 'This file is gone.')
    handle.source = this.#deps.contents.open(node.entry)
    return handle.source
  }

  /** Writes all of `bytes`; a number at once in the common case. */
  write(handle: FileHandle, bytes: Uint8Array, position: number): number | Promise<number> {
    if (!handle.writable) throw new DriveError('bad-handle', 'This file is open for reading only.')
    const { staged } = handle.node
    if (staged?.isDraft === true && !handle.endIsUnsure) {
      const length = Math.max(staged.size, position + bytes.length)
      if (staged.room.fits(length)) return this.#writeStaged(staged, bytes, position)
    }
    return this.#writeSlowly(handle, Buffer.from(bytes), position)
  }

  async #writeSlowly(handle: FileHandle, bytes: Uint8Array, position: number): Promise<number> {
    const isAtEnd = handle.append === true && handle.endIsUnsure
    const placeIn = (staged: StagedFile): number => (isAtEnd ? staged.size : position)
    return this.#change(handle.node, {
      length: (staged) => Math.max(staged.size, placeIn(staged) + bytes.length),
      make: (staged) => {
        // For the kernel the file ends elsewhere now.
        if (placeIn(staged) !== position) handle.node.sizeChangedAtMs = this.#deps.clock.now()
        return this.#writeStaged(staged, bytes, placeIn(staged))
      },
      refuse: (staged, error) => staged.failed(placeIn(staged), bytes.length, error),
    })
  }

  /**
   * Changes the draft of a node once there is room for its new length in bytes. While the room is asked
   * for, the draft may be promised: then the change goes to the next one.
   */
  async #change<Result>(
    node: FileNode,
    change: {
      readonly length: (staged: StagedFile) => number
      readonly make: (staged: StagedFile) => Result
      readonly refuse: (staged: StagedFile, error: unknown) => unknown
    },
  ): Promise<Result> {
    for (;;) {
      const staged = await this.#stage(node)
      try {
        await staged.room.check(change.length(staged))
      } catch (error) {
        throw change.refuse(staged, error)
      }
      if (staged.isDraft && staged === node.staged) return change.make(staged)
    }
  }

  #writeStaged(staged: StagedFile, bytes: Uint8Array, position: number): number {
    staged.write(bytes, position, this.#deps.clock.now())
    return bytes.length
  }

  async truncate(node: FileNode, length: number): Promise<void> {
    if (length === 0) {
      await this.#stageEmpty(node, this.#deps.modeOf(node))
      return
    }
    await this.#change(node, {
      length: () => length,
      make: (staged) => {
        staged.truncate(length, this.#deps.clock.now())
      },
      refuse: (_, error) => error,
    })
  }

  /** Makes the content of a node writable: a draft that starts as a copy of the version that it is. */
  async #stage(node: FileNode): Promise<StagedFile> {
    return this.#deps.nodeLocks.run(node, async () => {
      if (node.staged?.isDraft === true) return node.staged
      this.#follow(node)
      const mode = this.#deps.modeOf(node)
      return this.#adopt(node, await this.#newContent(node, { empty: false, mode }))
    })
  }

  async #stageEmpty(node: FileNode, mode: number): Promise<void> {
    await this.#deps.nodeLocks.run(node, async () => {
      const now = this.#deps.clock.now()
      if (node.staged?.isDraft === true) {
        node.staged.truncate(0, now)
        return
      }
      this.#follow(node)
      this.#adopt(node, await this.#newContent(node, { empty: true, mode }))
    })
  }

  /** Learns what became of a node here: that it was stored. What another machine did sets it aside. */
  #follow({ name, isAside }: FileNode): void {
    if (name !== undefined && !isAside) this.#deps.entries.resolve(name)
  }

  #newContent(
    node: FileNode,
    options: { readonly empty: boolean; readonly mode: number },
  ): Promise<StagedFile> {
    const room = this.#deps.space.room(() => node.name)
    return this.#deps.contents.stage(node, { ...options, room })
  }

  #adopt(node: FileNode, staged: StagedFile): StagedFile {
    const before = node.staged
    node.staged = staged
    before?.close()
    return staged
  }

  /** What close does. */
  async flush(handle: FileHandle): Promise<void> {
    if (handle.writable) await this.#deps.committer.commitAndWait(handle.node)
  }

  async fsync(handle: FileHandle): Promise<void> {
    await this.#deps.committer.commitAndWait(handle.node)
  }

  /** The last user of an open file is gone; what no close has promised goes to the outbox now. */
  async release(handle: FileHandle): Promise<void> {
    const { node } = handle
    this.#deps.handles.close(handle)
    handle.source?.close()
    if (node.handles.size > 0) return
    try {
      const intent = await this.#deps.committer.commit(node)
      // What failed was tried by close, which told of it; another try is the uploader's to time.
      if (intent?.phase === 'waiting' && intent.failure === undefined) {
        await this.#deps.committer.settle(intent.id)
      }
    } finally {
      this.#letGo(node)
      this.#deps.nodes.forgetIfUnused(node)
    }
  }

  #letGo(node: FileNode): void {
    const { staged } = node
    if (staged === undefined || node.handles.size > 0) return
    // A named file that could not be committed keeps its content, for the next close to try again.
    if (staged.dirty && !staged.isHalf && node.name !== undefined) return
    node.staged = undefined
    this.#discard(staged)
    // Half a file takes the place of nothing: the name has what it had before, or goes.
    if (staged.isHalf && node.entry === undefined) this.#deps.nodes.unlink(node)
  }

  #discard(staged: StagedFile): void {
    staged.close()
    staged.room.giveBack()
    if (!staged.dirty) return
    this.#deps.outbox.discardDraft(staged.id).catch((error: unknown) => {
      this.#deps.log.warn({ draft: staged.id, error: String(error) }, 'A draft stays behind.')
    })
  }

  /** What is written and not promised yet goes to the outbox; for leaving. */
  async commitAll(): Promise<void> {
    for (const node of this.#deps.nodes.all().filter(({ isDraft }) => isDraft)) {
      try {
        await this.#deps.committer.commit(node)
      } catch (error) {
        this.#deps.log.error({ name: node.name, error: String(error) }, 'Not stored on leaving.')
      }
    }
  }
}
