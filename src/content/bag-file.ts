import { syncData } from '../disk/sync.ts'
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  futimesSync,
  openSync,
  read,
  readFileSync,
  readSync,
  renameSync,
  unlinkSync,
  write,
  writeSync,
  writev,
  writevSync,
} from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import { RangeSet } from '../domain/ranges.ts'
import type { CacheLayout, ContentPaths } from './cache-layout.ts'
import { withoutFirst } from './chunks.ts'

const readAt = promisify(read)
const writeAt = promisify(write)
const writeAllAt = promisify(writev)

/** Modification times tell the order of last use; being this much off does no harm. */
const TOUCH_AFTER_MS = 60_000

/**
 * One generation of a bag's content on disk, open: all of it (`complete`) or the `ranges` that are
 * there. A bag whose content must be distrusted gets a new BagFile, never a mended one.
 *
 * What makes a crash harmless: a part becomes complete only by a rename, after its data reached the
 * disk. `.ranges` is written to a new file and renamed, only after the data that it names reached
 * the disk. So what a later process believes was written, even after a power cut. The cost, one
 * fdatasync per bag, is paid in the background.
 */
export class BagFile {
  readonly bagId: BagId
  readonly ranges: RangeSet
  /** Length of the whole content in bytes, once known. */
  total: number | undefined
  etag: string | undefined
  readonly #layout: CacheLayout
  readonly #key: string
  readonly #paths: ContentPaths
  #fd: number | undefined
  #isFinal: boolean
  #discarded = false
  #busy = 0
  #drops = 0
  #closing = false

  private constructor(
    layout: CacheLayout,
    found: { bagId: BagId; key: string; fd?: number; ranges?: RangeSet },
    known: { total?: number | undefined; etag?: string | undefined; isFinal: boolean },
  ) {
    this.bagId = found.bagId
    this.ranges = found.ranges ?? new RangeSet()
    this.total = known.total
    this.etag = known.etag
    this.#layout = layout
    this.#key = found.key
    this.#paths = layout.paths(found.key)
    this.#fd = found.fd
    this.#isFinal = known.isFinal
  }

  /** A file with nothing in it, which is made on disk when the first bytes are written. */
  static empty(layout: CacheLayout, bagId: BagId, key: string): BagFile {
    return new BagFile(layout, { bagId, key }, { isFinal: false })
  }

  /** Complete content, or undefined when it is not there or not a file. */
  static openComplete(layout: CacheLayout, bagId: BagId, key: string): BagFile | undefined {
    const fd = openIfThere(layout.paths(key).complete, 'r')
    if (fd === undefined) return undefined
    const total = fstatSync(fd).size
    const ranges = new RangeSet()
    ranges.add(0, total)
    return new BagFile(layout, { bagId, key, fd, ranges }, { total, isFinal: true })
  }

  /** What an earlier process or reader left of a download, or undefined when it cannot be used. */
  static openPartial(layout: CacheLayout, bagId: BagId, key: string): BagFile | undefined {
    const paths = layout.paths(key)
    const known = readRanges(paths.ranges, bagId)
    if (known === undefined) return undefined
    const fd = openIfThere(paths.part, 'r+')
    if (fd === undefined) return undefined
    if (fstatSync(fd).size < known.ranges.end) {
      closeSync(fd)
      return undefined
    }
    return new BagFile(
      layout,
      { bagId, key, fd, ranges: known.ranges },
      { ...known, isFinal: false },
    )
  }

  /** True when the content is on disk under its own name. */
  get isFinal(): boolean {
    return this.#isFinal
  }

  /** True when every byte is here. */
  get isWhole(): boolean {
    return this.total !== undefined && this.ranges.covered === this.total
  }

  get fd(): number | undefined {
    return this.#fd
  }

  /** Where the bytes are now. */
  get path(): string {
    return this.#isFinal ? this.#paths.complete : this.#paths.part
  }

  /** Reads bytes that are here, from the page cache or the disk, at once. */
  readNow(buffer: Uint8Array, position: number, length: number): number {
    try {
      let done = 0
      while (done < length) {
        const got = readSync(this.#openFd(), buffer, done, length - done, position + done)
        if (got === 0) break
        done += got
      }
      return this.#checkRead(done, length)
    } catch (error) {
      throw fromFileSystem(error, 'Cannot read cached content')
    }
  }

  /** As `readNow`, without holding up the main thread when the disk is slow. */
  async read(buffer: Uint8Array, position: number, length: number): Promise<number> {
    return this.#use('Cannot read cached content', async (fd) => {
      let done = 0
      while (done < length) {
        const { bytesRead } = await readAt(fd, buffer, done, length - done, position + done)
        if (bytesRead === 0) break
        done += bytesRead
      }
      return this.#checkRead(done, length)
    })
  }

  /**
   * Writes `chunks` one after the other from `position`, and then counts them as here. Resolves
   * with how many bytes are here that were not before.
   */
  async write(chunks: readonly Uint8Array[], position: number): Promise<number> {
    this.create()
    const drops = this.#drops
    return this.#use('Cannot write to the cache', async (fd) => {
      let end = position
      for (let rest = chunks; rest.length > 0;) {
        const written = await writeSome(fd, rest, end)
        end += written
        rest = withoutFirst(rest, written)
      }
      // A drop in the meantime may have taken these bytes too.
      if (this.#drops !== drops || this.#discarded) return 0
      return this.#nowHere(position, end)
    })
  }

  /** As `write`, at once; for a disk that keeps up. */
  writeNow(chunks: readonly Uint8Array[], position: number): number {
    this.create()
    try {
      let end = position
      for (let rest = chunks; rest.length > 0;) {
        const written = writevSync(this.#openFd(), rest, end)
        end += written
        rest = withoutFirst(rest, written)
      }
      return this.#nowHere(position, end)
    } catch (error) {
      throw fromFileSystem(error, 'Cannot write to the cache')
    }
  }

  /** Counts bytes as here; answers how many of them were not before. */
  #nowHere(start: number, end: number): number {
    const before = this.ranges.covered
    this.ranges.add(start, end)
    return this.ranges.covered - before
  }

  /** Makes the file on disk, when it is not there yet. */
  create(): void {
    if (this.#fd !== undefined) return
    try {
      this.#layout.makeFolder(this.#key)
      // What an earlier part left would be believed of the new one.
      this.#forgetRanges()
      this.#fd = this.#createPart()
    } catch (error) {
      throw fromFileSystem(error, 'Cannot write to the cache')
    }
  }

  /**
   * Frees the disk of all bytes but those from `start` to `end`, if they are here. What is
   * known of the content stays.
   */
  dropExcept(start: number, end: number): void {
    const kept = this.ranges.contains(start, end) ? Buffer.alloc(end - start) : Buffer.alloc(0)
    try {
      if (kept.length > 0) this.readNow(kept, start, kept.length)
      this.#drops += 1
      this.#forgetRanges()
      this.ranges.clear()
      if (this.#fd === undefined) return
      ftruncateSync(this.#fd, 0)
      if (kept.length > 0 && writeSync(this.#fd, kept, 0, kept.length, start) === kept.length) {
        this.ranges.add(start, end)
      }
    } catch (error) {
      throw fromFileSystem(error, 'Cannot make room in the cache')
    }
  }

  /** Writes down which bytes are here, after they reached the disk. */
  async saveRanges(): Promise<void> {
    const drops = this.#drops
    const ranges = this.ranges.toJSON()
    const text = JSON.stringify({ bagId: this.bagId, total: this.total, etag: this.etag, ranges })
    await this.#use('Cannot write to the cache', async (fd) => {
      await syncData(fd)
      if (!this.#mayStillSave(drops)) return
      const fresh = `${this.#paths.ranges}.new`
      await writeFile(fresh, text, { mode: 0o600, flush: true })
      // Synchronous, so that nothing can be dropped between the question and the rename.
      if (this.#mayStillSave(drops)) renameSync(fresh, this.#paths.ranges)
      else unlinkSync(fresh)
    })
  }

  /** Gives whole content its own name, after it reached the disk. */
  async store(): Promise<void> {
    this.create()
    await this.#use('Cannot keep content in the cache', async (fd) => {
      await syncData(fd)
      if (this.#discarded || this.#isFinal) return
      renameSync(this.#paths.part, this.#paths.complete)
      this.#isFinal = true
      this.#forgetRanges()
    })
  }

  /** Sets content that failed its check aside under `.bad`. */
  setAside(): void {
    this.#discarded = true
    this.#forgetRanges()
    try {
      renameSync(this.path, this.#paths.bad)
    } catch (error) {
      throw fromFileSystem(error, 'Cannot set bad content aside')
    }
  }

  /** Removes the content from disk. Its space is free when the promise resolves and it is closed. */
  async discard(): Promise<void> {
    if (this.#discarded) return
    this.#discarded = true
    await this.#layout.remove(this.#key, this.#isFinal ? 'complete' : 'partial')
  }

  /** Notes on disk that the content was used, for the next process's order of eviction. */
  touch(nowMs: number): void {
    if (this.#fd === undefined || this.#discarded) return
    try {
      if (nowMs - fstatSync(this.#fd).mtimeMs < TOUCH_AFTER_MS) return
      futimesSync(this.#fd, nowMs / 1000, nowMs / 1000)
    } catch (error) {
      throw fromFileSystem(error, 'Cannot note the use of cached content')
    }
  }

  /** Closes the descriptor as soon as nothing uses it. */
  close(): void {
    this.#closing = true
    if (this.#busy > 0 || this.#fd === undefined) return
    closeSync(this.#fd)
    this.#fd = undefined
  }

  async #use<Result>(what: string, task: (fd: number) => Promise<Result>): Promise<Result> {
    this.#busy += 1
    try {
      return await task(this.#openFd())
    } catch (error) {
      throw fromFileSystem(error, what)
    } finally {
      this.#busy -= 1
      if (this.#closing) this.close()
    }
  }

  #openFd(): number {
    if (this.#fd === undefined) throw new Error('The content is closed.')
    return this.#fd
  }

  #createPart(): number {
    try {
      return openSync(this.#paths.part, 'w+', 0o600)
    } catch (error) {
      if (!isAbsent(error)) throw error
      this.#layout.forgetFolders()
      this.#layout.makeFolder(this.#key)
      return openSync(this.#paths.part, 'w+', 0o600)
    }
  }

  /** The file is shorter than it was: something outside changed it. */
  #checkRead(done: number, length: number): number {
    if (done < length) throw new Error(`only ${done} of ${length} bytes are there.`)
    return done
  }

  #mayStillSave(drops: number): boolean {
    return !this.#discarded && !this.#isFinal && this.#drops === drops
  }

  #forgetRanges(): void {
    try {
      unlinkSync(this.#paths.ranges)
    } catch (error) {
      if (!isAbsent(error)) {
        throw fromFileSystem(error, 'Cannot write to the cache')
      }
    }
  }
}

async function writeSome(
  fd: number,
  chunks: readonly Uint8Array[],
  position: number,
): Promise<number> {
  const [first] = chunks
  if (chunks.length === 1 && first !== undefined) {
    return (await writeAt(fd, first, 0, first.length, position)).bytesWritten
  }
  return (await writeAllAt(fd, chunks, position)).bytesWritten
}

function openIfThere(path: string, flags: string): number | undefined {
  try {
    return openSync(path, flags)
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw fromFileSystem(error, 'Cannot open cached content')
  }
}

function readRanges(
  path: string,
  bagId: BagId,
): { ranges: RangeSet; total?: number; etag?: string } | undefined {
  const saved = parseJson(path)
  if (typeof saved !== 'object' || saved === null || !('ranges' in saved)) return undefined
  const { bagId: savedId, total, etag } = saved as Record<string, unknown>
  const ranges = RangeSet.parse(saved.ranges)
  if (savedId !== bagId || ranges === undefined) return undefined
  if (total !== undefined && !(Number.isSafeInteger(total) && Number(total) >= ranges.end)) {
    return undefined
  }
  return {
    ranges,
    ...(total !== undefined && { total: Number(total) }),
    ...(typeof etag === 'string' && { etag }),
  }
}

function parseJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown
  } catch (error) {
    if (error instanceof SyntaxError || isAbsent(error)) return undefined
    throw fromFileSystem(error, 'Cannot open cached content')
  }
}
