import type { Clock } from '../../domain/clock.ts'
import { DriveError, localDiskFull } from '../../domain/errors.ts'
import type { HandleId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { syncDirectory } from '../../disk/atomic-file.ts'
import { isZero } from '../../folder/sparse-file.ts'
import type { Source } from '../source.ts'
import { KeyedLock } from '../../domain/keyed-lock.ts'
import type { StagedFile } from '../staged-file.ts'
import type { FolderWork } from './folder-work.ts'
import type { FolderRoom } from './folder-room.ts'
import type { Folder } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import type { ArchivedContent, LocalContent } from './item-content.ts'
import { pathOfItem, type FileItem } from './items.ts'
import { openLeaf, openLeafNow } from './leaf-source.ts'
import { fileOperation, type LocalContents } from './local-contents.ts'

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
  readonly room: FolderRoom
  readonly inflated: InflatedFiles
  readonly contents: LocalContents
  readonly clock: Clock
  readonly log: Logger
  /** One change of the folder at a time. */
  readonly inTurn: <Result>(task: () => Promise<Result>) => Promise<Result>
}

const COPY_BYTES = 1 << 20
/** Content up to this size that was closed is copied before it is changed; of larger, what changes is kept. */
const COPIED_BYTES = 1 << 20

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
    if (item.content.from === 'local') this.#deps.contents.stagedOf(item, item.content)
    item.handles += 1
    this.#deps.folder.openFiles += 1
    return { id, item, writable, source: undefined, opened: undefined, openedFrom: undefined }
  }

  read(handle: FolderHandle, buffer: Uint8Array, position: number): number | Promise<number> {
    const { content } = handle.item
    if (content.from === 'local')
      return this.#deps.contents.stagedOf(handle.item, content).readNow(buffer, position)
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
    if (content.from === 'local' && content.staged?.dirty === true && isChangeable(content)) {
      const { staged } = content
      const length = Math.max(staged.size, position + bytes.length)
      if (fits(content, staged, length)) return this.#put(content, staged, bytes, position)
    }
    return this.#writeSlowly(handle.item, Buffer.from(bytes), position)
  }

  async #writeSlowly(item: FileItem, bytes: Buffer, position: number): Promise<number> {
    const [content, staged] = await this.#roomFor(
      item,
      { empty: false },
      async (own, candidate) => {
        try {
          await check(own, candidate, Math.max(candidate.size, position + bytes.length))
        } catch (error) {
          throw candidate.failed(position, bytes.length, error)
        }
      },
    )
    return this.#put(content, staged, bytes, position)
  }

  /**
   * Staged content that may be changed at once, after `check`: packing may have begun meanwhile, and
   * what it reads must stay as it is.
   */
  async #roomFor(
    item: FileItem,
    options: { readonly empty: boolean },
    check: (content: LocalContent, staged: StagedFile) => Promise<void>,
  ): Promise<readonly [LocalContent, StagedFile]> {
    for (;;) {
      const [content, staged] = await this.writable(item, options)
      await check(content, staged)
      if (item.content === content && content.staged === staged && isChangeable(content))
        return [content, staged]
    }
  }

  #put(content: LocalContent, staged: StagedFile, bytes: Uint8Array, position: number): number {
    try {
      content.undo?.keep(staged, position, position + bytes.length)
    } catch (error) {
      throw staged.failed(position, bytes.length, error)
    }
    staged.write(bytes, position, this.#deps.clock.now())
    return bytes.length
  }

  async truncate(item: FileItem, length: number): Promise<void> {
    const empty = length === 0
    const [content, staged] = await this.#roomFor(item, { empty }, async (own, candidate) => {
      await check(own, candidate, length)
      await own.undo?.keepFrom(candidate, length)
    })
    content.undo?.keep(staged, length, Infinity)
    staged.truncate(length, this.#deps.clock.now())
  }

  /** Staged content of a file that may be changed now: a copy, where the content is to stay as it is. */
  async writable(
    item: FileItem,
    options: { readonly empty: boolean },
  ): Promise<readonly [LocalContent, StagedFile]> {
    const { contents, work, room } = this.#deps
    return this.#deps.inTurn(async () => {
      if (item.content.from === 'archive' && this.#pathOf(item) !== undefined) {
        await room.check(options.empty ? -item.content.node.entry.compressedSize : 0)
      }
      await work.begin()
      const { content } = item
      if (content.from === 'local' && !staysAsItIs(content, options)) {
        const staged = contents.stagedOf(item, content)
        if (this.#pathOf(item) === undefined) content.isClosed = false
        contents.keepClosed(content)
        return [content, staged]
      }
      if (!options.empty && contents.isDiskShort) throw localDiskFull('Content cannot be copied')
      const copy = contents.make(item.mode)
      // What no name leads to will never be sent.
      if (this.#pathOf(item) === undefined) copy.room.giveBack()
      if (!options.empty) await this.#copyInto(item, copy.staged)
      copy.before = contents.keptFor(content)
      item.content = copy
      room.settle()
      if (content.from === 'local') content.closeStaged()
      return [copy, copy.staged]
    })
  }

  async #copyInto(item: FileItem, target: StagedFile): Promise<void> {
    const { content } = item
    const source =
      content.from === 'local'
        ? this.#deps.contents.stagedOf(item, content)
        : await this.#openArchived(content)
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
    const copy = this.#deps.contents.copyAt(path, item.mode)
    try {
      await this.#copyInto(item, copy)
      await copy.sync()
      return copy.size
    } finally {
      copy.close()
      if (content.from === 'local' && item.handles === 0) content.closeStaged()
    }
  }

  /**
   * Writes down what was written into a file; resolves when it would survive a power cut. With `closes`,
   * the folder is stored with it from now on; a descriptor that others share may be closed before that.
   */
  async persist(item: FileItem, { closes }: { readonly closes: boolean }): Promise<void> {
    await this.#persisting.run(item, async () => {
      // A write may have gone to a copy meanwhile, which has what was to be made safe.
      for (let last: unknown; last !== item.content;) {
        last = item.content
        await this.#persistNow(item, closes)
      }
    })
  }

  #pathOf(item: FileItem): string | undefined {
    return pathOfItem(item, this.#deps.folder.top)
  }

  async #persistNow(item: FileItem, closes: boolean): Promise<void> {
    const { content } = item
    if (content.from !== 'local') return
    const { staged } = content
    const isDirty = staged?.dirty === true
    if (!isDirty && !(closes && content.isWritten)) return
    // As on a local disk: a new file that could not be written whole is not kept, an old one is as it is.
    if (!content.journaled) staged?.refuseHalf()
    try {
      if (isDirty) staged.dirty = false
      if (isDirty) await staged.sync()
      await this.#deps.inTurn(() => this.#writeDown(item, content, { isDirty, closes }))
    } catch (error) {
      if (isDirty) staged.dirty = true
      throw error
    }
  }

  /** In one turn: a zip is made of all that is closed, and of nothing that is only about to be. */
  async #writeDown(
    item: FileItem,
    content: LocalContent,
    { isDirty, closes }: { readonly isDirty: boolean; readonly closes: boolean },
  ): Promise<void> {
    const { work, contents } = this.#deps
    const { staged } = content
    const isNew = staged !== undefined && (isDirty || !content.journaled)
    if (isNew) await work.begin()
    const path = this.#pathOf(item)
    if (path === undefined || item.content !== content) return
    if (isNew) {
      if (!content.journaled) await syncDirectory(work.filesDir)
      this.#journalFile(item, content, staged, path)
      await work.sync()
    }
    // A zip may have gone without it since it was written down.
    if (closes && contents.noteClosed(content)) work.touch()
  }

  #journalFile(item: FileItem, content: LocalContent, staged: StagedFile, path: string): void {
    item.mtimeMs = staged.mtime
    content.length = staged.size
    this.#deps.work.append(fileOperation(item, content, path, this.#deps.clock.now()))
    this.#deps.contents.noteJournaled(content)
  }

  /** The last user of an open file is gone. */
  async close(handle: FolderHandle): Promise<void> {
    const { item } = handle
    closeSource(handle.source)
    item.handles -= 1
    this.#deps.folder.openFiles -= 1
    try {
      if (item.handles === 0) await this.#closeItem(item)
      else if (handle.writable && !isHalf(item)) await this.persist(item, { closes: true })
    } finally {
      this.#deps.folder.closeOldReaders()
    }
  }

  async #closeItem(item: FileItem): Promise<void> {
    const { content } = item
    if (content.from !== 'local') return
    if (isHalf(item)) {
      await this.#takeBackHalf(item, content)
      if (content.before !== undefined) return
    }
    const isThere = this.#pathOf(item) !== undefined
    if (isThere) await this.persist(item, { closes: true })
    if (item.handles > 0) return
    content.closeStaged()
    if (!isThere) this.discard(item)
  }

  /** As on a full local disk: a new file is not kept, an old one is as it was. */
  async #takeBackHalf(item: FileItem, content: LocalContent): Promise<void> {
    if (content.before === undefined) {
      item.parent?.children?.delete(item.name)
      item.parent = undefined
      return
    }
    await this.#deps.contents.takeBack(item, content, content.before)
    this.#deps.room.noteTakenBack()
  }

  /** Removes the staged content of a file that is gone, unless somebody has it open. */
  discard(item: FileItem): void {
    const { contents, folder } = this.#deps
    contents.noteUnlinked(item)
    if (item.handles > 0) return
    folder.forget(item)
    contents.forget(item)
  }
}

/** True for content that may be written in place, without a look at what it was. */
function isChangeable(content: LocalContent): boolean {
  return !content.isPinned && content.isWritten
}

/** True when content may be changed to be of this length; what is kept of it before takes room on the disk, too. */
function fits({ undo }: LocalContent, { room }: StagedFile, length: number): boolean {
  return room.fits(length) && !(undo !== undefined && room.isDiskShort)
}

/** Throws when content may not be changed to be of this length, see `fits`. */
async function check(content: LocalContent, staged: StagedFile, length: number): Promise<void> {
  if (fits(content, staged, length)) return
  await staged.room.check(length)
  if (staged.room.isDiskShort) throw localDiskFull('What was closed cannot be kept')
}

/** True for content that packing reads, or that a zip or the start after a kill may need as it is. */
function staysAsItIs(content: LocalContent, { empty }: { readonly empty: boolean }): boolean {
  if (content.isPinned) return true
  // What was closed is not cut to nothing in place: a kill before the next close would take it.
  if (empty && content.length > 0 && content.journaled && content.staged?.dirty !== true)
    return true
  return !content.isWritten && content.length <= COPIED_BYTES
}

function isHalf({ content }: FileItem): boolean {
  return content.from === 'local' && content.staged?.isHalf === true && !content.journaled
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
