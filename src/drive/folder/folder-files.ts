import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { HandleId, IntentId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { syncDirectory } from '../../state/atomic-file.ts'
import { isZero } from '../../folder/sparse-file.ts'
import type { Source } from '../source.ts'
import { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Space } from '../space.ts'
import { StagedFile } from '../staged-file.ts'
import type { FolderWork } from './folder-work.ts'
import type { Folder } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import {
  isClosedContent,
  pathOfItem,
  promisedContent,
  type ArchivedContent,
  type FileItem,
  type LocalContent,
} from './items.ts'
import { openLeaf, openLeafNow } from './leaf-source.ts'

/** An open file inside a folder. */
export interface FolderHandle {
  readonly id: HandleId
  readonly item: FileItem
  readonly writable: boolean
  /** What it reads while the content is in the zip; opened at the first read. */
  source: Promise<Source> | undefined
  /** The same, once it is open. */
  opened: Source | undefined
  /** Where that is: a folder that was stored again has it in another zip. */
  openedFrom: ArchivedContent | undefined
}

interface FolderFilesDeps {
  readonly folder: Folder
  readonly work: FolderWork
  readonly inflated: InflatedFiles
  readonly space: Space
  readonly clock: Clock
  readonly log: Logger
  /** One change of the folder at a time. */
  readonly inTurn: <Result>(task: () => Promise<Result>) => Promise<Result>
}

const COPY_BYTES = 1 << 20
const NO_BASE = { replaces: [], supersedes: [] }

/** The content of files inside a folder: reading it where it is, and writing into staged files. */
export class FolderFiles {
  readonly #deps: FolderFilesDeps
  /** Whoever wants a file to be safe waits for others who make it so. */
  readonly #persisting = new KeyedLock<FileItem>()

  constructor(deps: FolderFilesDeps) {
    this.#deps = deps
  }

  /** Size in bytes as it is now. */
  sizeOf(item: FileItem): number {
    const { content } = item
    if (content.from === 'archive') return content.node.entry.size
    return content.staged?.size ?? content.length
  }

  mtimeOf(item: FileItem): number {
    const { content } = item
    return content.from === 'local' ? (content.staged?.mtime ?? item.mtimeMs) : item.mtimeMs
  }

  /** Counts an open file; `close` gives it back. */
  open(id: HandleId, item: FileItem, writable: boolean): FolderHandle {
    if (item.content.from === 'local') this.#stagedOf(item, item.content)
    item.handles += 1
    this.#deps.folder.openFiles += 1
    return { id, item, writable, source: undefined, opened: undefined, openedFrom: undefined }
  }

  read(handle: FolderHandle, buffer: Uint8Array, position: number): number | Promise<number> {
    const { content } = handle.item
    if (content.from === 'local')
      return this.#stagedOf(handle.item, content).readNow(buffer, position)
    const opened = handle.openedFrom === content ? handle.opened : this.#openNow(handle, content)
    return opened === undefined
      ? this.#readArchived(handle, buffer, position)
      : this.#readOpened(handle, opened, buffer, position)
  }

  /** What needs no waiting is opened within the call. */
  #openNow(handle: FolderHandle, content: ArchivedContent): Source | undefined {
    const opened = openLeafNow(content.archive, content.node)
    if (opened === undefined) return undefined
    closeSource(handle.source)
    handle.openedFrom = content
    handle.opened = opened
    handle.source = Promise.resolve(opened)
    return opened
  }

  #readOpened(
    handle: FolderHandle,
    opened: Source,
    buffer: Uint8Array,
    position: number,
  ): number | Promise<number> {
    try {
      const count = opened.readNow(buffer, position)
      if (count !== undefined) return count
    } catch (error) {
      this.#logFailure(handle, error)
      throw error
    }
    return opened.read(buffer, position).catch((error: unknown) => {
      this.#logFailure(handle, error)
      throw error
    })
  }

  #logFailure({ item }: FolderHandle, error: unknown): void {
    const { folder, log } = this.#deps
    const path = pathOfItem(item, folder.top)
    log.warn({ bagId: folder.baseBag, path }, `No content: ${String(error)}`)
  }

  async #readArchived(handle: FolderHandle, buffer: Uint8Array, position: number): Promise<number> {
    const { content } = handle.item
    if (content.from === 'archive' && handle.openedFrom !== content) {
      closeSource(handle.source)
      handle.opened = undefined
      handle.openedFrom = content
      handle.source = this.#openArchived(content)
    }
    const { source } = handle
    if (source === undefined) throw new DriveError('stale', 'The content of this file has moved.')
    try {
      const opened = await source
      if (handle.source === source) handle.opened = opened
      return await opened.read(buffer, position)
    } catch (error) {
      if (handle.source === source) handle.openedFrom = undefined
      this.#logFailure(handle, error)
      throw error
    }
  }

  async #openArchived(content: ArchivedContent): Promise<Source> {
    const bag = this.#deps.folder.baseBag
    if (bag === undefined) throw new DriveError('stale', 'The folder of this file is gone.')
    return openLeaf(content.archive, content.node, bag, this.#deps.inflated)
  }

  write(handle: FolderHandle, bytes: Uint8Array, position: number): number | Promise<number> {
    if (!handle.writable) throw new DriveError('bad-handle', 'This file is open for reading only.')
    const { content } = handle.item
    if (content.from === 'local' && content.pins === 0 && content.staged?.dirty === true) {
      const growth = position + bytes.length - content.staged.size
      if (this.#deps.space.fits(growth)) return this.#put(content.staged, bytes, position)
    }
    return this.#writeSlowly(handle.item, Buffer.from(bytes), position)
  }

  async #writeSlowly(item: FileItem, bytes: Buffer, position: number): Promise<number> {
    const staged = await this.#roomFor(item, { empty: false }, async (candidate) => {
      try {
        await this.#deps.space.check(position + bytes.length - candidate.size)
      } catch (error) {
        throw candidate.failed(position, bytes.length, error)
      }
    })
    return this.#put(staged, bytes, position)
  }

  /**
   * Staged content that may be changed at once, after `check`: packing may have begun meanwhile, and
   * what it reads must stay as it is.
   */
  async #roomFor(
    item: FileItem,
    options: { readonly empty: boolean },
    check: (staged: StagedFile) => Promise<void>,
  ): Promise<StagedFile> {
    for (;;) {
      const staged = await this.writable(item, options)
      await check(staged)
      const { content } = item
      if (content.from === 'local' && content.staged === staged && content.pins === 0) return staged
    }
  }

  #put(staged: StagedFile, bytes: Uint8Array, position: number): number {
    const before = staged.size
    staged.write(bytes, position, this.#deps.clock.now())
    this.#deps.space.take(staged.size - before)
    return bytes.length
  }

  async truncate(item: FileItem, length: number): Promise<void> {
    const staged = await this.#roomFor(item, { empty: length === 0 }, (candidate) =>
      this.#deps.space.check(length - candidate.size),
    )
    const before = staged.size
    staged.truncate(length, this.#deps.clock.now())
    this.#deps.space.take(length - before)
  }

  /** Staged content of a file that may be changed now: a copy, where the content is in the zip or being packed. */
  async writable(item: FileItem, options: { readonly empty: boolean }): Promise<StagedFile> {
    return this.#deps.inTurn(async () => {
      await this.#deps.work.begin()
      const { content } = item
      // What was closed is not cut to nothing in place: a kill before the next close would take it.
      const isKept = options.empty && isClosedContent(item)
      if (content.from === 'local' && content.pins === 0 && !isKept) {
        return this.#stagedOf(item, content)
      }
      const copy = this.newContent(item)
      copy.before = promisedContent(item)
      if (!options.empty) await this.#copyInto(item, copy.staged)
      this.#deps.space.take(copy.staged.size)
      item.content = copy
      if (content.from === 'local') this.#closeStaged(content)
      return copy.staged
    })
  }

  /** Empty content in the staging directory of the folder. */
  newContent(item: { readonly mode: number }): LocalContent & { staged: StagedFile } {
    const { file, path } = this.#deps.work.newFile()
    const staged = this.#stagedAt(path, item.mode)
    const before = undefined
    return { from: 'local', file, path, length: 0, staged, pins: 0, journaled: false, before }
  }

  #stagedAt(path: string, mode: number): StagedFile {
    const draft = { id: (this.#deps.work.id ?? '') as IntentId, path }
    const room = this.#deps.space.room(() => undefined)
    // What folders take is counted apart.
    room.giveBack()
    return new StagedFile(draft, NO_BASE, { mode, nowMs: this.#deps.clock.now(), room }).retain()
  }

  #stagedOf(item: FileItem, content: LocalContent): StagedFile {
    if (content.staged === undefined) {
      content.staged = this.#stagedAt(content.path, item.mode)
      content.staged.mtimeMs = item.mtimeMs
      content.staged.dirty = false
      if (content.staged.size !== content.length) {
        this.#closeStaged(content)
        throw new DriveError('local-io', `The staged content of ${item.name} is damaged.`)
      }
    }
    return content.staged
  }

  async #copyInto(item: FileItem, target: StagedFile): Promise<void> {
    const { content } = item
    const source =
      content.from === 'local' ? this.#stagedOf(item, content) : await this.#openArchived(content)
    const buffer = Buffer.allocUnsafe(COPY_BYTES)
    try {
      for (let position = 0; ;) {
        const count = await source.read(buffer, position)
        if (count === 0) return
        const piece = buffer.subarray(0, count)
        // A hole takes no room, as it takes none in the zip.
        if (isZero(piece)) target.truncate(position + count, this.#deps.clock.now())
        else target.write(piece, position, this.#deps.clock.now())
        position += count
      }
    } finally {
      if (content.from === 'archive') source.close()
    }
  }

  /**
   * Writes the content of a file, as it is now, to a new file that a power cut does not take. Answers
   * its length in bytes; rejects with the error of the write that failed for half a file.
   */
  async copyTo(item: FileItem, path: string): Promise<number> {
    const { content } = item
    if (content.from === 'local' && !content.journaled) content.staged?.refuseHalf()
    const copy = this.#stagedAt(path, item.mode)
    try {
      await this.#copyInto(item, copy)
      await copy.sync()
      return copy.size
    } finally {
      copy.close()
      if (content.from === 'local' && item.handles === 0) this.#closeStaged(content)
    }
  }

  /** From now on a write goes to a copy, so that this content stays as it is. */
  pin(content: LocalContent): void {
    content.pins += 1
  }

  /** Content that was replaced while it was pinned is let go of. */
  unpin(item: FileItem, content: LocalContent): void {
    content.pins -= 1
    const { content: now } = item
    if (now === content || (now.from === 'local' && now.before === content)) return
    this.#drop(content)
  }

  /** Writes down what was written into a file; resolves when it would survive a power cut. */
  async persist(item: FileItem): Promise<void> {
    await this.#persisting.run(item, async () => {
      // A write may have gone to a copy meanwhile, which has what was to be made safe.
      for (let last: unknown; last !== item.content;) {
        last = item.content
        await this.#persistNow(item)
      }
    })
  }

  async #persistNow(item: FileItem): Promise<void> {
    const { content } = item
    if (content.from !== 'local' || content.staged?.dirty !== true) return
    const { staged } = content
    // As on a local disk: a new file that could not be written whole is not kept, an old one is as it is.
    if (!content.journaled) staged.refuseHalf()
    staged.dirty = false
    try {
      await staged.sync()
      await this.#deps.inTurn(async () => {
        await this.#deps.work.begin()
        const path = pathOfItem(item, this.#deps.folder.top)
        if (path === undefined || item.content !== content) return
        if (!content.journaled) await syncDirectory(this.#deps.work.filesDir)
        this.#journalFile(item, content, staged, path)
        await this.#deps.work.sync()
      })
    } catch (error) {
      staged.dirty = true
      throw error
    }
  }

  #journalFile(item: FileItem, content: LocalContent, staged: StagedFile, path: string): void {
    item.mtimeMs = staged.mtime
    content.length = staged.size
    this.#deps.work.append({
      op: 'file',
      path,
      atMs: this.#deps.clock.now(),
      file: content.file,
      length: staged.size,
      mode: item.mode,
      mtimeMs: item.mtimeMs,
    })
    content.journaled = true
    const { before } = content
    content.before = undefined
    if (before !== undefined) this.#drop(before)
  }

  /** Content that no file has any more; its file goes once the journal is safe without it. */
  #drop(content: LocalContent | ArchivedContent): void {
    if (content.from !== 'local' || content.pins > 0) return
    this.#deps.space.take(-content.length)
    this.#deps.work.dropFile(content.path)
  }

  /** The last user of an open file is gone. */
  async close(handle: FolderHandle): Promise<void> {
    const { item } = handle
    closeSource(handle.source)
    item.handles -= 1
    this.#deps.folder.openFiles -= 1
    try {
      if (item.handles === 0) await this.#closeItem(item)
    } finally {
      this.#deps.folder.closeOldReaders()
    }
  }

  async #closeItem(item: FileItem): Promise<void> {
    const { content } = item
    if (content.from !== 'local') return
    if (content.staged?.isHalf === true && !content.journaled) {
      this.#takeBackHalf(item, content)
      if (content.before !== undefined) return
    }
    const isThere = pathOfItem(item, this.#deps.folder.top) !== undefined
    if (isThere) await this.persist(item)
    if (item.handles > 0) return
    this.#closeStaged(content)
    if (!isThere) this.discard(item)
  }

  /** As on a full local disk: a new file is not kept, an old one is as it was. */
  #takeBackHalf(item: FileItem, content: LocalContent): void {
    if (content.before === undefined) {
      item.parent?.children?.delete(item.name)
      item.parent = undefined
      return
    }
    item.content = content.before
    this.#closeStaged(content)
    this.#drop(content)
  }

  #closeStaged(content: LocalContent): void {
    content.staged?.close()
    content.staged = undefined
  }

  /** Removes the staged content of a file that is gone, unless somebody has it open. */
  discard(item: FileItem): void {
    const { content } = item
    if (item.handles > 0) return
    this.#deps.folder.forget(item)
    this.#drop(content)
    if (content.from === 'local' && content.before !== undefined) this.#drop(content.before)
  }
}

/** For what could not be opened there is nothing to close. */
function closeSource(source: Promise<Source> | undefined): void {
  source?.then(
    (opened) => {
      opened.close()
    },
    () => undefined,
  )
}
