import { dirname } from 'node:path'
import { isThere } from '../../disk/if-there.ts'
import type { Clock } from '../../domain/clock.ts'
import { keptOf, type KeptAttributes } from '../../domain/attributes.ts'
import { DriveError, localDiskFull } from '../../domain/errors.ts'
import type { Logger } from '../../domain/logger.ts'
import { isZero } from '../../zip/sparse-file.ts'
import { withDiskRoom } from '../space/with-disk-room.ts'
import type { News } from '../tree/news.ts'
import type { Source } from '../tree/source.ts'
import { KeyedLock } from '../../domain/keyed-lock.ts'
import type { GivenAttributes, StagedFile } from '../tree/staged-file.ts'
import type { ChangeLog } from './change-log.ts'
import type { FolderRoom } from './folder-room.ts'
import type { Folder } from './folder.ts'
import type { InflatedFiles } from './inflated-files.ts'
import type { ArchivedContent, LocalContent } from './item-content.ts'
import { pathOfItem, type FileItem } from './items.ts'
import { openLeaf, openLeafNow } from './leaf-source.ts'
import { fileOperation, type LocalContents } from './local-contents.ts'

interface FolderFilesDeps {
  readonly folder: Folder
  readonly news: News
  readonly changes: ChangeLog
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
  /** A call that makes a file safe waits for others that do so already. */
  readonly #persisting = new KeyedLock<FileItem>()

  constructor(deps: FolderFilesDeps) {
    this.#deps = deps
  }

  /** Size in bytes as it is now. */
  sizeOf(item: FileItem): number {
    const { content } = item
    if (content.from === 'archive') return content.node.member.size
    return content.staged?.size ?? content.length
  }

  /** As they are now: content that is being written has times of its own. */
  attributesOf(item: FileItem): KeptAttributes {
    const { content } = item
    return content.from === 'local' && content.staged !== undefined
      ? { ...keptOf(item), ...content.staged.times }
      : item
  }

  /** Counts an open file; `release` gives it back. */
  retain(item: FileItem, { writable }: { readonly writable: boolean }): void {
    const { folder } = this.#deps
    if (item.content.from === 'local') this.stagedOf(item, item.content)
    item.handles += 1
    folder.openFiles += 1
    if (!writable) folder.openReaders += 1
  }

  stagedOf(item: FileItem, content: LocalContent): StagedFile {
    return this.#deps.contents.stagedOf(item, content)
  }

  /** What needs no waiting; undefined for all other. */
  openArchivedNow({ archive, node }: ArchivedContent): Source | undefined {
    return openLeafNow(archive, node)
  }

  async openArchived({ archive, node }: ArchivedContent): Promise<Source> {
    const bag = this.#deps.folder.bagOf(archive)
    if (bag === undefined) throw new DriveError('stale', 'The folder of this file is gone.')
    return openLeaf(archive, node, bag, this.#deps.inflated)
  }

  /** Staged content of a file that may be changed now: a copy, where the content is to stay as it is. */
  async stage(item: FileItem, options: { readonly empty: boolean }): Promise<StagedFile> {
    return this.#deps.inTurn(async () => {
      refuseAside(item)
      return this.#pathOf(item) === undefined
        ? this.#stageNameless(item, options)
        : this.#stageNamed(item, options)
    })
  }

  async #stageNamed(item: FileItem, options: { readonly empty: boolean }): Promise<StagedFile> {
    const { contents, changes, room } = this.#deps
    if (item.content.from === 'archive') {
      await room.check(options.empty ? -item.content.node.member.compressedSize : 0)
    }
    await changes.begin()
    const { content } = item
    if (content.from === 'local' && !staysAsItIs(content, options)) {
      const staged = contents.stagedOf(item, content)
      if (content.hasSum) await this.#takeBackSum(item, content)
      contents.keepClosed(content)
      return staged
    }
    if (!options.empty && contents.isDiskShort) throw localDiskFull('Content cannot be copied')
    const staged = await this.#copied(item, contents.make(givenOf(item)), options)
    room.recountIfShort()
    return staged
  }

  /** What is on the platter needs no sum, and may change in place. */
  async #takeBackSum(item: FileItem, content: LocalContent): Promise<void> {
    const { changes, clock } = this.#deps
    const path = this.#pathOf(item)
    await changes.sync()
    if (path !== undefined) {
      const { file, length } = content
      changes.repeat(fileOperation(item, { file, length }, path, clock.now()))
      await changes.sync()
    }
    content.hasSum = false
  }

  /** What no name leads to is never stored: it is no change of its folder, which may be gone. */
  async #stageNameless(item: FileItem, options: { readonly empty: boolean }): Promise<StagedFile> {
    const { contents } = this.#deps
    const { content } = item
    if (content.from === 'local' && !content.isFrozen && !content.hasSum) {
      return contents.stagedOf(item, content)
    }
    return this.#copied(item, await contents.makeNameless(givenOf(item)), options)
  }

  /**
   * What was written without a name is going to get one. It is copied where what it was written beside is stored by now,
   * and gone. The caller has the turn.
   */
  async keepNameless(item: FileItem): Promise<void> {
    const { contents, changes } = this.#deps
    const { content } = item
    if (content.from !== 'local') return
    content.staged?.refuseHalf()
    if (dirname(content.path) === changes.files.dir && (await isThere(content.path))) return
    await this.#copied(item, contents.make(givenOf(item)), { empty: false })
  }

  async #copied(
    item: FileItem,
    copy: LocalContent & { staged: StagedFile },
    options: { readonly empty: boolean },
  ): Promise<StagedFile> {
    const { content } = item
    if (!options.empty) await this.#copyInto(item, copy.staged)
    copy.before = this.#deps.contents.keptFor(content)
    item.content = copy
    if (content.from === 'local') content.closeStaged()
    return copy.staged
  }

  async #copyInto(item: FileItem, target: StagedFile): Promise<void> {
    const { content } = item
    const source =
      content.from === 'local'
        ? this.#deps.contents.stagedOf(item, content)
        : await this.openArchived(content)
    const buffer = Buffer.allocUnsafe(COPY_BYTES)
    try {
      for (let position = 0; ;) {
        const count = await source.read(buffer, position)
        if (count === 0) return
        const piece = buffer.subarray(0, count)
        // A hole takes no room, as it takes none in the zip.
        if (isZero(piece)) target.truncate(position + count, this.#deps.clock.now())
        else await this.#writeWithRoom(target, piece, position)
        position += count
      }
    } finally {
      if (content.from === 'archive') source.close()
    }
  }

  async #writeWithRoom(target: StagedFile, piece: Uint8Array, position: number): Promise<void> {
    const write = async (): Promise<void> => {
      target.write(piece, position, this.#deps.clock.now())
      return Promise.resolve()
    }
    await withDiskRoom(write, () => target.room.makeDiskRoom(piece.length))
  }

  /**
   * Writes the content of a file, as it is now, to a new file that a power cut does not take. Answers
   * its length in bytes; rejects with the error of the write that failed for half a file.
   */
  async copyTo(item: FileItem, path: string): Promise<number> {
    const { content } = item
    if (content.from === 'local' && !content.journaled) content.staged?.refuseHalf()
    const copy = this.#deps.contents.copyAt(path, givenOf(item))
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
    const hadUnpromised = staged?.hasUnpromised === true
    if (!hadUnpromised && !(closes && content.isWritten)) return
    refuseAside(item)
    // As on a local disk: a new file that could not be written whole is not kept, an old one is as it is.
    if (!content.journaled) staged?.refuseHalf()
    try {
      const isSynced = hadUnpromised && (await isSyncedWithoutSum(staged))
      await this.#deps.inTurn(() =>
        this.#writeDown(item, content, { hadUnpromised, isSynced, closes }),
      )
    } catch (error) {
      if (hadUnpromised) staged.hasUnpromised = true
      throw error
    }
  }

  /** In one turn: a zip is made of all that is closed, and of nothing that is only about to be. */
  async #writeDown(
    item: FileItem,
    content: LocalContent,
    {
      hadUnpromised,
      isSynced,
      closes,
    }: { readonly hadUnpromised: boolean; readonly isSynced: boolean; readonly closes: boolean },
  ): Promise<void> {
    const { changes, contents } = this.#deps
    const { staged } = content
    const isNew = staged !== undefined && (hadUnpromised || !content.journaled)
    if (isNew && this.#pathOf(item) !== undefined) await changes.begin()
    const path = this.#pathOf(item)
    if (path === undefined || item.content !== content) return
    if (isNew) {
      await syncWithoutSum(staged, { isSynced })
      this.#journalFile(item, content, staged, path)
    }
    // A zip may have gone without it since it was written down.
    if (closes && contents.noteClosed(content)) changes.touch()
  }

  #journalFile(item: FileItem, content: LocalContent, staged: StagedFile, path: string): void {
    const sha256 = sumOf(staged)
    Object.assign(item, staged.times)
    content.length = staged.size
    const { file, length } = content
    const what = { file, length, ...(sha256 === undefined ? {} : { sha256 }) }
    this.#deps.changes.append(fileOperation(item, what, path, this.#deps.clock.now()))
    content.hasSum = sha256 !== undefined
    content.group = this.#deps.changes.noteGiven(content.path)
    this.#deps.contents.noteJournaled(content)
  }

  /** The last user of an open file is gone. */
  async release(item: FileItem, { wasWritable }: { readonly wasWritable: boolean }): Promise<void> {
    const { folder } = this.#deps
    item.handles -= 1
    folder.openFiles -= 1
    if (!wasWritable) folder.openReaders -= 1
    try {
      if (item.handles === 0) await this.#closeItem(item)
      else if (wasWritable && !isHalf(item)) await this.persist(item, { closes: true })
    } finally {
      this.#deps.folder.closeOldZips()
    }
  }

  async #closeItem(item: FileItem): Promise<void> {
    if (this.#pathOf(item) !== undefined) {
      if (item.content.from === 'local' && isHalf(item))
        await this.#takeBackHalf(item, item.content)
      else await this.persist(item, { closes: true })
    }
    if (item.handles > 0) return
    if (item.content.from === 'local') item.content.closeStaged()
    if (this.#pathOf(item) === undefined) this.discard(item)
  }

  /** As on a full local disk: a new file is not kept, an old one is as it was. */
  async #takeBackHalf(item: FileItem, content: LocalContent): Promise<void> {
    const { news, folder } = this.#deps
    await this.#takeBack(item, content)
    news.inside(folder.node.id)
  }

  async #takeBack(item: FileItem, content: LocalContent): Promise<void> {
    if (content.before === undefined) {
      item.parent?.children?.delete(item.name)
      item.parent = undefined
      return
    }
    await this.#deps.contents.takeBack(item, content, content.before)
    this.#deps.room.noteTakenBack()
  }

  /** Removes the staged content of a file that is gone, unless a program has it open. */
  discard(item: FileItem): void {
    const { contents, folder } = this.#deps
    contents.noteUnlinked(item)
    if (item.handles > 0) return
    folder.forget(item)
    contents.forget(item)
  }
}

/** What is about to be promised: where its sum is not at hand nothing would tell what a power cut made of it. */
async function isSyncedWithoutSum(staged: StagedFile): Promise<boolean> {
  staged.hasUnpromised = false
  if (staged.knownSha256 !== undefined) return false
  await staged.sync()
  return true
}

/** What the journal gets no sum of is on the platter before. */
async function syncWithoutSum(
  staged: StagedFile,
  { isSynced }: { readonly isSynced: boolean },
): Promise<void> {
  if (staged.hasUnpromised || (!isSynced && sumOf(staged) === undefined)) await staged.sync()
}

/** What is being written on already has none yet. */
function sumOf(staged: StagedFile): string | undefined {
  return staged.hasUnpromised ? undefined : staged.knownSha256
}

/** True for content that packing reads, or that a zip or the start after a kill may need as it is. */
function staysAsItIs(content: LocalContent, { empty }: { readonly empty: boolean }): boolean {
  if (content.isFrozen) return true
  // What was closed is not cut to nothing in place: a kill before the next close would take it.
  if (empty && content.length > 0 && content.journaled && content.staged?.hasUnpromised !== true)
    return true
  return !content.isWritten && content.length <= COPIED_BYTES
}

/** The attributes of a file for content that is about to be written: with the times of that. */
function givenOf({ mode, atimeMs, uid, gid }: FileItem): GivenAttributes {
  return { mode, atimeMs, uid, gid }
}

function isHalf({ content }: FileItem): boolean {
  return content.from === 'local' && content.staged?.isHalf === true && !content.journaled
}

/** Throws `stale` for what is of a version that its folder shows no more: nothing that is written there is stored. */
function refuseAside({ isAside }: FileItem): void {
  if (isAside === true) {
    throw new DriveError('stale', 'The folder of this file shows another version now.')
  }
}
