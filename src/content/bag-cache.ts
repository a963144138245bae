import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, copyFile, lstat, open, rename, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import PQueue from 'p-queue'
import type { Clock } from '../domain/clock.ts'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { fileNameOf } from '../domain/ids.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { DriveService } from '../service/drive-service.ts'
import { sha256OfFile } from '../disk/file-hash.ts'
import { BagFile } from './bag-file.ts'
import { BagReader } from './bag-reader.ts'
import { Bag } from './bag.ts'
import type { BagDependencies, BagSettings } from './bag.ts'
import { CacheLayout } from './cache-layout.ts'
import { CacheSpace, freeBytesOf } from './cache-space.ts'
import type { DiskRoom } from './cache-space.ts'
import { DiskPace } from './disk-pace.ts'
import { ReadPace } from './read-pace.ts'
import type { FactsAccess } from './facts-access.ts'
import { RangeSupport } from './range-support.ts'
import { Silence } from './silence.ts'
import { comesAgain } from './twice.ts'

const COPY_BYTES = 1024 * 1024
/** Content that waits to reach the disk; new downloads wait while there is more of it. */
const MOST_WAITING = 64

export interface BagCacheDependencies {
  readonly service: Pick<DriveService, 'download'>
  readonly log: Logger
  readonly clock: Clock
  readonly facts: FactsAccess
  /** Sizes in bytes that the listing tells of a bag, one for each of its records that has any. */
  readonly listedSizes: (bagId: BagId) => readonly number[]
  /** Bytes still free for us on the disk of `dir`; asked of the file system by default. */
  readonly freeBytes?: (dir: string) => Promise<number>
  /** Of the disk of `dir`; measured by default. */
  readonly readPace?: ReadPace
}

export interface BagCacheSettings extends BagSettings {
  /** Made when it is not there; private to the user. */
  readonly dir: string
  /** Limit of the bytes on disk. What is open may pass it, until it is closed. */
  readonly maxBytes: number
  /** Bytes of the disk that are left to others. */
  readonly minFreeBytes: number
  /** How long a download goes on after its last reader left. */
  readonly graceMs: number
  /** Tries to take a cut download up again, in a row without a byte of progress. */
  readonly resumeTries: number
  /** Milliseconds at less than the least pace, over all tries, after which a reader gets an error. */
  readonly silenceMs: number
}

export interface ReadOptions {
  /** Length in bytes that readers are told where the service does not tell it in time. */
  readonly listedLength?: number
  /** The reader begins at the start: a download that tells the length may go on at once. */
  readonly fromStart?: boolean
}

export interface CopyOptions {
  readonly signal?: AbortSignal
  /** Called with the bytes copied so far. */
  readonly onProgress?: (copiedBytes: number) => void
}

export interface HeadOptions {
  readonly signal?: AbortSignal
  readonly mustBeSure?: boolean
}

/** The first bytes of a bag, and what the service said of it, when it was asked just now. */
export interface BagHead {
  readonly bytes: Uint8Array
  readonly contentType?: string
  readonly fileName?: string
  /** False when nothing tells yet that these bytes are content. */
  readonly isSure: boolean
}

export interface CacheStats {
  /** Bytes on disk, partial content included. */
  readonly bytes: number
  readonly maxBytes: number
  /** Bags with content on disk. */
  readonly bags: number
  readonly downloads: readonly {
    readonly bagId: BagId
    readonly received: number
    readonly total: number | undefined
  }[]
}

/**
 * The content of bags on this machine: one download per bag whoever reads it, readable while it
 * arrives, kept on disk within limits, and still there after a crash. See docs/SEMANTICS.md, "Reading" and "The cache".
 */
export class BagCache {
  readonly #dependencies: Omit<BagDependencies, 'retired'>
  readonly #settings: BagCacheSettings
  readonly #background: PQueue
  readonly #readPace: ReadPace
  /** Bags in use; a bag leaves when it retires. */
  readonly #bags = new Map<string, Bag>()
  #closed = false

  private constructor(
    dependencies: Omit<BagDependencies, 'retired' | 'background'>,
    settings: BagCacheSettings,
    readPace: ReadPace,
  ) {
    this.#readPace = readPace
    this.#background = new PQueue({ concurrency: 1 })
    this.#dependencies = {
      ...dependencies,
      background: {
        add: (task) => this.#background.add(task),
        ready: () => this.#background.onSizeLessThan(MOST_WAITING),
      },
    }
    this.#settings = settings
  }

  /** Takes in what is on disk. Rejects `local-io`, `local-disk-full` or, for absurd limits, `usage`. */
  static async open(
    dependencies: BagCacheDependencies,
    settings: BagCacheSettings,
  ): Promise<BagCache> {
    if (!Number.isSafeInteger(settings.maxBytes) || settings.maxBytes < 1) {
      throw new DriveError(
        'usage',
        'The size of the cache must be a whole number of bytes above 0.',
      )
    }
    const { log, freeBytes = freeBytesOf, readPace = new ReadPace() } = dependencies
    const layout = await CacheLayout.open(settings.dir, log)
    const space = new CacheSpace({ layout, log, freeBytes }, settings)
    try {
      space.load(await layout.scan())
    } catch (error) {
      throw fromFileSystem(error, `Cannot read the cache directory ${settings.dir}`)
    }
    const support = new RangeSupport()
    const pace = new DiskPace(dependencies.clock)
    return new BagCache({ ...dependencies, layout, space, support, pace }, settings, readPace)
  }

  get room(): DiskRoom {
    return this.#dependencies.space
  }

  /** A reader of the bag. Starts no download by itself; throws `local-io` when the disk fails. */
  open(bagId: BagId, options: ReadOptions = {}): BagReader {
    return new BagReader(this.#use(bagId), this.#readPace, { ...options, isProbe: false })
  }

  isComplete(bagId: BagId): boolean {
    const key = fileNameOf(bagId)
    const bag = this.#bags.get(key)
    if (bag !== undefined) return bag.isComplete
    return this.#dependencies.space.peek(key)?.kind === 'complete'
  }

  /** True length in bytes, as far as it is known without asking the service. */
  lengthOf(bagId: BagId): number | undefined {
    const known = this.#dependencies.facts.get(bagId)?.length
    if (known !== undefined) return known
    const key = fileNameOf(bagId)
    const idle = this.#dependencies.space.peek(key)
    return this.#bags.get(key)?.length ?? (idle?.kind === 'complete' ? idle.bytes : undefined)
  }

  /**
   * Moves a finished local file into the cache as the bag's content. On an error the file is still
   * where it was: `invalid` when it is not a file of that length, `too-large` when it can never fit.
   */
  async adopt(bagId: BagId, path: string, length: number): Promise<void> {
    if (length > this.#settings.maxBytes) {
      throw new DriveError('too-large', `${path} is larger than the whole cache.`)
    }
    try {
      const found = await lstat(path)
      if (!found.isFile() || found.size !== length) {
        throw new DriveError('invalid', `${path} is not a file of ${length} bytes.`)
      }
      await this.#adoptFile(bagId, path, length)
    } catch (error) {
      throw fromFileSystem(error, `Cannot take ${path} into the cache`)
    }
  }

  /**
   * Writes all of a bag's content to `path`, which must not exist; resolves with its length. The copy may
   * take the place of the bag, so content of a length that nothing tells must come twice, all of it.
   */
  async copyTo(bagId: BagId, path: string, options: CopyOptions = {}): Promise<number> {
    const bag = this.#use(bagId)
    const reader = new BagReader(bag, this.#readPace, { isProbe: false })
    let isOurs = false
    try {
      await bag.stored()
      isOurs = bag.storedPath !== undefined && (await cloneFile(bag.storedPath, path))
      if (!isOurs) {
        const target = await open(path, 'wx', 0o600)
        isOurs = true
        await this.#copyContent(reader, target, options)
      }
      return await this.#checkCopy(bag, path, options)
    } catch (error) {
      if (isOurs) await rm(path, { force: true })
      throw toCopyError(error, path)
    } finally {
      reader.close()
    }
  }

  async #copyContent(reader: BagReader, target: FileHandle, options: CopyOptions): Promise<void> {
    try {
      const sum = this.#dependencies.facts.get(reader.bagId)?.sha256
      await copyContent(reader, (bytes) => target.writeFile(bytes), { ...options, sum })
    } finally {
      await target.close()
    }
  }

  /** Resolves with the length of a copy that may be believed. */
  async #checkCopy(bag: Bag, path: string, options: CopyOptions): Promise<number> {
    const { bagId } = bag
    const { service, facts, listedSizes, clock } = this.#dependencies
    const { size: length } = await lstat(path)
    options.onProgress?.(length)
    if (facts.get(bagId)?.sha256 !== undefined || listedSizes(bagId).includes(length)) return length
    const { signal } = options
    const sha256 = await sha256OfFile(path, signal)
    const silence = new Silence(clock, this.#settings.silenceMs)
    const before = { length, sha256 }
    if (await comesAgain({ service, silence }, bagId, before, signal)) return length
    throw bag.contradicted()
  }

  /** Length and SHA-256 of all of a bag's content, which need not fit on the disk. */
  async sumOf(
    bagId: BagId,
    options: CopyOptions = {},
  ): Promise<{ readonly length: number; readonly sha256: string }> {
    const reader = this.open(bagId, { fromStart: true })
    const hash = createHash('sha256')
    try {
      const length = await copyContent(
        reader,
        (bytes) => {
          hash.update(bytes)
        },
        { ...options, sum: undefined },
      )
      return { length, sha256: hash.digest('hex') }
    } finally {
      reader.close()
    }
  }

  /**
   * The first bytes of a bag, at most `length`, to find out what it is. Shares a download with
   * readers; when there are none, it stops as soon as these bytes are here. Content in doubt comes once,
   * unless it `mustBeSure`.
   */
  async head(bagId: BagId, length: number, options: HeadOptions = {}): Promise<BagHead> {
    const { signal, mustBeSure = false } = options
    const bag = this.#use(bagId)
    const reader = new BagReader(bag, this.#readPace, { isProbe: true, takesDoubts: !mustBeSure })
    try {
      const bytes = Buffer.alloc(length)
      const count = await reader.read(bytes, 0, signal)
      return { bytes: bytes.subarray(0, count), ...reader.described, isSure: !bag.isInDoubt }
    } finally {
      reader.close()
    }
  }

  /**
   * Reads complete content again and compares it with the SHA-256 that is known, if any. Content
   * that is `bad` is set aside, and who has it open is told. Rejects `local-io` when it cannot be
   * read, `not-found` when there is no complete content.
   */
  async verify(bagId: BagId): Promise<'good' | 'bad' | 'unknown'> {
    if (!this.isComplete(bagId)) {
      throw new DriveError('not-found', `Bag ${bagId} is not complete in the cache.`)
    }
    if (this.#dependencies.facts.get(bagId)?.sha256 === undefined) return 'unknown'
    const bag = this.#use(bagId)
    const claim = bag.claim({})
    try {
      return (await bag.isAsKnown()) ? 'good' : 'bad'
    } finally {
      bag.release(claim, true)
    }
  }

  stats(): CacheStats {
    const { space } = this.#dependencies
    const open = [...this.#bags.values()]
    return {
      bytes: space.usedBytes,
      maxBytes: this.#settings.maxBytes,
      bags: space.idleBags + open.filter((bag) => bag.receivedBytes > 0 || bag.isComplete).length,
      downloads: open
        .filter((bag) => bag.isDownloading)
        .map((bag) => ({ bagId: bag.bagId, received: bag.receivedBytes, total: bag.length })),
    }
  }

  /** Removes all content that is not open. */
  async clear(): Promise<void> {
    await this.#dependencies.space.clear()
  }

  /** Stops downloads, puts partial content aside and closes every file. Readers end with it. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#bags.values()].map((bag) => bag.shutDown()))
    await this.#background.onIdle()
    await this.#dependencies.space.settled()
  }

  #use(bagId: BagId): Bag {
    if (this.#closed) throw new DriveError('bad-handle', 'The cache is closed.')
    const key = fileNameOf(bagId)
    const inUse = this.#bags.get(key)
    if (inUse !== undefined) return inUse
    const dependencies: BagDependencies = {
      ...this.#dependencies,
      retired: () => {
        this.#bags.delete(key)
      },
    }
    const bag = new Bag({ ...this.#openFile(bagId, key), key }, dependencies, this.#settings)
    this.#bags.set(key, bag)
    return bag
  }

  #openFile(bagId: BagId, key: string): { file: BagFile; isComplete: boolean } {
    const { layout, space, facts, log } = this.#dependencies
    const stored = space.take(key)
    if (stored?.kind === 'complete') {
      const file = BagFile.openComplete(layout, bagId, key)
      const length = facts.get(bagId)?.length ?? stored.bytes
      if (file?.total === length) return { file, isComplete: true }
      file?.close()
    } else if (stored?.kind === 'partial') {
      const file = BagFile.openPartial(layout, bagId, key)
      if (file !== undefined) return { file, isComplete: false }
    }
    if (stored !== undefined) {
      log.warn({ bagId, kind: stored.kind }, 'Cached content is not as it was left; removed.')
      space.track(layout.remove(key, stored.kind))
    }
    return { file: BagFile.empty(layout, bagId, key), isComplete: false }
  }

  async #adoptFile(bagId: BagId, path: string, length: number): Promise<void> {
    const { layout, space } = this.#dependencies
    const key = fileNameOf(bagId)
    const { complete } = layout.paths(key)
    await space.reserve(length)
    try {
      layout.makeFolder(key)
      await chmod(path, 0o600)
      await moveFile(path, complete)
    } finally {
      space.adjust(-length)
    }
    const inUse = this.#bags.get(key)
    const file = inUse && BagFile.openComplete(layout, bagId, key)
    if (inUse !== undefined && file !== undefined) {
      inUse.adopt(file)
      return
    }
    const replaced = space.take(key)
    if (replaced?.kind === 'partial') space.track(layout.remove(key, 'partial'))
    space.putBack(key, 'complete', length)
  }
}

/** Renames, or copies to another disk and then removes the original. */
async function moveFile(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
    return
  } catch (error) {
    if (systemErrorCode(error) !== 'EXDEV') throw error
  }
  const fresh = `${to}.adopting`
  try {
    await copyFile(from, fresh, constants.COPYFILE_FICLONE)
    await syncFile(fresh)
    await rename(fresh, to)
  } catch (error) {
    await rm(fresh, { force: true })
    throw error
  }
  await rm(from)
}

async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r+')
  try {
    await handle.datasync()
  } finally {
    await handle.close()
  }
}

/** Copies by the file system's own means; false when the content has gone from under its name. */
async function cloneFile(from: string, to: string): Promise<boolean> {
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL)
    return true
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return false
    if (systemErrorCode(error) !== 'EEXIST') await rm(to, { force: true })
    throw error
  }
}

/** Content that went through a window was never whole, so its sum is taken here. */
async function copyContent(
  reader: BagReader,
  write: (bytes: Uint8Array) => Promise<void> | void,
  options: CopyOptions & { readonly sum: string | undefined },
): Promise<number> {
  const block = Buffer.allocUnsafe(COPY_BYTES)
  const hash = options.sum === undefined ? undefined : createHash('sha256')
  let copied = 0
  for (;;) {
    const count = await reader.read(block, copied, options.signal)
    if (count === 0) break
    const bytes = block.subarray(0, count)
    hash?.update(bytes)
    await write(bytes)
    copied += count
    options.onProgress?.(copied)
  }
  if (hash === undefined || hash.digest('hex') === options.sum) return copied
  throw new DriveError('corrupt', `Bag ${reader.bagId} came with a wrong SHA-256.`)
}

function toCopyError(error: unknown, path: string): unknown {
  if (systemErrorCode(error) === 'EEXIST') {
    return new DriveError('exists', `${path} exists already.`, { cause: error })
  }
  return fromFileSystem(error, `Cannot write ${path}`)
}
