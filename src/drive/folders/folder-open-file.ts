import type { Clock } from '../../domain/clock.ts'
import { isDriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { News } from '../tree/news.ts'
import { OpenFile, type OpenMode } from '../tree/open-file.ts'
import type { Source } from '../tree/source.ts'
import type { StagedFile } from '../tree/staged-file.ts'
import type { FolderFiles } from './folder-files.ts'
import type { Folder } from './folder.ts'
import { isChangeable, type ArchivedContent } from './item-content.ts'
import { pathOfItem, withReadTime, type FileItem } from './items.ts'

interface FolderOpenFileDeps {
  readonly folder: Folder
  readonly files: FolderFiles
  readonly news: News
  readonly clock: Clock
  readonly log: Logger
}

/** What is read of an entry of the folder's zip. */
interface Reading {
  /** The entry; a folder that was stored again has the file in another zip. Undefined once reading failed. */
  of: ArchivedContent | undefined
  readonly source: Promise<Source>
  opened: Source | undefined
}

/** An open file inside a folder: it is written into a staged file, and close makes that a line of the journal. */
export class FolderOpenFile extends OpenFile {
  readonly item: FileItem
  readonly #deps: FolderOpenFileDeps
  #reading: Reading | undefined

  constructor(deps: FolderOpenFileDeps, item: FileItem, mode: OpenMode) {
    super(deps.clock, mode)
    this.#deps = deps
    this.item = item
    deps.files.retain(item, mode)
  }

  override get nodeId(): NodeId {
    return this.item.id
  }

  isOf(folder: Folder): boolean {
    return this.#deps.folder === folder
  }

  override read(buffer: Uint8Array, position: number): number | Promise<number> {
    try {
      const count = super.read(buffer, position)
      return typeof count === 'number' ? count : this.#watched(count)
    } catch (error) {
      throw this.#failed(error)
    }
  }

  async #watched(count: Promise<number>): Promise<number> {
    const reading = this.#reading
    try {
      return await count
    } catch (error) {
      // The next read opens it anew, but for content that was found wrong: that would be given out unchecked.
      if (reading !== undefined && !isDriveError(error, 'corrupt')) reading.of = undefined
      throw this.#failed(error)
    }
  }

  #failed<Failure>(error: Failure): Failure {
    const { folder, log } = this.#deps
    const path = pathOfItem(this.item, folder.top)
    log.warn({ bagId: folder.baseBag, path }, `No content: ${String(error)}`)
    return error
  }

  protected override source(): Source | Promise<Source> {
    const { content } = this.item
    if (content.from === 'local') return this.#deps.files.stagedOf(this.item, content)
    const reading = this.#reading?.of === content ? this.#reading : this.#open(content)
    return reading.opened ?? reading.source
  }

  #open(content: ArchivedContent): Reading {
    this.#closeReading()
    const opened = this.#deps.files.openArchivedNow(content)
    const source =
      opened === undefined ? this.#deps.files.openArchived(content) : Promise.resolve(opened)
    const reading: Reading = { of: content, source, opened }
    this.#reading = reading
    source.then(
      (later) => {
        reading.opened = later
      },
      () => {
        // The read that waits for it is told.
        reading.of = undefined
      },
    )
    return reading
  }

  #closeReading(): void {
    this.#reading?.source.then(
      (opened) => {
        opened.close()
      },
      () => undefined, // What could not be opened needs no closing.
    )
    this.#reading = undefined
  }

  protected override draft(): StagedFile | undefined {
    const { content, isAside } = this.item
    if (isAside === true) return undefined
    if (content.from !== 'local' || content.staged?.hasUnpromised !== true) return undefined
    return isChangeable(content) ? content.staged : undefined
  }

  protected override isCurrent(staged: StagedFile): boolean {
    const { content } = this.item
    return content.from === 'local' && content.staged === staged && isChangeable(content)
  }

  protected override stage(options: { readonly empty: boolean }): Promise<StagedFile> {
    return this.#deps.files.stage(this.item, options)
  }

  protected override noteOtherSize(nowMs: number): void {
    this.item.sizeChangedAtMs = nowMs
    this.#deps.news.content(this.item.id)
  }

  protected override moveAtime(nowMs: number): boolean {
    const { files, folder } = this.#deps
    const kept = withReadTime(files.attributesOf(this.item), this.item)
    return folder.accessTimes.noteRead(this.item, kept, nowMs)
  }

  /** What others go on to write into the same open file is whole when it is released: the folder is not stored with it before. */
  protected override keep(options: { readonly closes: boolean }): Promise<void> {
    return this.#deps.files.persist(this.item, options)
  }

  override async close(): Promise<void> {
    this.#closeReading()
    await this.#deps.files.release(this.item, { wasWritable: this.writable })
  }
}
