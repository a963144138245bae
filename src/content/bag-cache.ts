import { lstatSync } from 'node:fs'
import PQueue from 'p-queue'
import type { Clock } from '../domain/clock.ts'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { fileNameOf } from '../domain/ids.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { StorageService } from '../service/storage-service.ts'
import { linkOrCopy } from '../disk/link-or-copy.ts'
import { BagCopies, type ContentSum, type CopyOptions, type HoldsOptions } from './bag-copies.ts'
import { BagReader } from './bag-reader.ts'
import { BagsInUse } from './bags-in-use.ts'
import type { BagDependencies, BagSettings } from './bag.ts'
import { CacheLayout, type FilesOfBag } from './cache-layout.ts'
import { CacheSpace, freeBytesOf } from './cache-space.ts'
import type { LastDiskRoom } from './cache-space.ts'
import { DiskSpeed } from './disk-speed.ts'
import { ReadDispatcher } from './read-dispatcher.ts'
import { ReadTally } from './read-tally.ts'
import type { FactsAccess } from '../domain/record.ts'
import { RangeSupport } from './range-support.ts'
import { StreamCount } from './stream-count.ts'
import { TakenBack } from './taken-back.ts'

/** Content that waits to reach the disk; new downloads wait while there is more of it. */
const MOST_WAITING = 64

export interface BagCacheDependencies {
  readonly service: Pick<StorageService, 'download'>
  readonly log: Logger
  readonly clock: Clock
  readonly facts: FactsAccess
  /** Sizes in bytes that the listing tells of a bag, one for each of its records that has any. */
  readonly listedSizes: (bagId: BagId) => readonly number[]
  /** Bytes still free for us on the disk of `dir`; asked of the file system by default. */
  readonly freeBytes?: (dir: string) => Promise<number>
  /** Of the disk of `dir`; measured by default. */
  readonly readDispatcher?: ReadDispatcher
  /** How many streams bring one bag; found out by default. */
  readonly count?: StreamCount
  /** What is pinned from the start, see `BagCache.pin`. */
  readonly pinned?: readonly BagId[]
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
  /** Milliseconds at less than the least speed, over all tries, after which a reader gets an error. */
  readonly silenceMs: number
}

export interface ReadOptions {
  /** Length in bytes that readers are told where the service does not tell it in time. */
  readonly listedLength?: number
  /** The reader begins at the start: a download that tells the length may go on at once. */
  readonly fromStart?: boolean
}

export interface FetchOptions extends Pick<CopyOptions, 'signal' | 'onProgress'> {
  readonly isBehind?: boolean
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

/** What is on this machine of a bag. */
export interface HeldContent {
  readonly bytes: number
  readonly isComplete: boolean
  readonly isDownloading: boolean
}

export interface CacheStats {
  /** Bytes on disk, partial content included. */
  readonly bytes: number
  readonly maxBytes: number
  /** Bags with content on disk. */
  readonly bags: number
  /** Reads of content of bags since the cache was opened: answered from the disk, and those that waited for the service. */
  readonly hits: number
  readonly misses: number
  readonly downloads: readonly {
    readonly bagId: BagId
    readonly received: number
    readonly total: number | undefined
  }[]
}

/**
 * The content of bags on this machine. All readers of a bag share one download and can read while
 * it arrives. Content is kept on disk within limits, and is still there after a crash. See
 * docs/SEMANTICS.md, "Reading" and "The cache".
 */
export class BagCache {
  readonly #dependencies: Omit<BagDependencies, 'retired'>
  readonly #settings: BagCacheSettings
  readonly #background: PQueue
  readonly #readDispatcher: ReadDispatcher
  readonly #copies: BagCopies
  readonly #tally: ReadTally
  readonly #bags: BagsInUse
  /** Keys of complete content that an earlier process left: the disk may have damaged it since. */
  readonly #unchecked = new Set<string>()

  private constructor(
    dependencies: Omit<BagDependencies, 'retired' | 'background'>,
    settings: BagCacheSettings,
    readDispatcher: ReadDispatcher,
  ) {
    this.#readDispatcher = readDispatcher
    this.#tally = new ReadTally(dependencies)
    this.#background = new PQueue({ concurrency: 1 })
    this.#dependencies = {
      ...dependencies,
      background: {
        add: (task) => this.#background.add(task),
        ready: () => this.#background.onSizeLessThan(MOST_WAITING),
      },
    }
    this.#settings = settings
    this.#bags = new BagsInUse(this.#dependencies, settings)
    this.#copies = new BagCopies({ ...dependencies, readDispatcher }, settings)
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
    const { log, freeBytes = freeBytesOf, readDispatcher = new ReadDispatcher() } = dependencies
    const layout = await CacheLayout.open(settings.dir, log)
    const space = new CacheSpace({ layout, log, freeBytes }, settings)
    space.pin(keysOf(dependencies.pinned ?? []))
    let found: readonly FilesOfBag[]
    try {
      found = await layout.scan()
      space.load(found)
    } catch (error) {
      throw fromFileSystem(error, `Cannot read the cache directory ${settings.dir}`)
    }
    const support = new RangeSupport()
    const { clock, count = new StreamCount(clock) } = dependencies
    const diskSpeed = new DiskSpeed(clock)
    const cache = new BagCache(
      { ...dependencies, layout, space, support, diskSpeed, count, takenBack: new TakenBack() },
      settings,
      readDispatcher,
    )
    for (const { key, kind } of found) if (kind === 'complete') cache.#unchecked.add(key)
    return cache
  }

  get room(): LastDiskRoom {
    return this.#dependencies.space
  }

  /** A reader of the bag. Starts no download by itself; throws `local-io` when the disk fails. */
  open(bagId: BagId, options: ReadOptions = {}): BagReader {
    return new BagReader(this.#bags.use(bagId), this.#readDispatcher, {
      ...options,
      isProbe: false,
      tally: this.#tally,
    })
  }

  isComplete(bagId: BagId): boolean {
    return this.heldOf(bagId).isComplete
  }

  /** True for complete content that came in this process, or was compared with its SHA-256 in it. */
  isTrusted(bagId: BagId): boolean {
    return this.isComplete(bagId) && !this.#unchecked.has(fileNameOf(bagId))
  }

  /**
   * Compares content that an earlier process left with the SHA-256 that is known, once. To be called before it may take the
   * place of what is stored: what is `bad` is set aside, and comes anew. Rejects `local-io` when it cannot be read.
   */
  async check(bagId: BagId): Promise<void> {
    const key = fileNameOf(bagId)
    if (!this.#unchecked.has(key)) return
    if (this.isComplete(bagId)) await this.verify(bagId)
    this.#unchecked.delete(key)
  }

  /** What is on this machine of a bag. */
  heldOf(bagId: BagId): HeldContent {
    const key = fileNameOf(bagId)
    const bag = this.#bags.get(bagId)
    if (bag !== undefined) {
      const { receivedBytes, isComplete, isDownloading } = bag
      return { bytes: receivedBytes, isComplete, isDownloading }
    }
    const idle = this.#dependencies.space.peek(key)
    const isComplete = idle?.kind === 'complete'
    return { bytes: idle?.bytes ?? 0, isComplete, isDownloading: false }
  }

  /** True length in bytes, as far as it is known without asking the service. */
  lengthOf(bagId: BagId): number | undefined {
    const known = this.#dependencies.facts.get(bagId)?.length
    if (known !== undefined) return known
    const key = fileNameOf(bagId)
    const idle = this.#dependencies.space.peek(key)
    return this.#bags.get(bagId)?.length ?? (idle?.kind === 'complete' ? idle.bytes : undefined)
  }

  /**
   * Moves a finished local file into the cache as the bag's content. On an error the file is still
   * where it was. Rejects `invalid` when it is not a file of that length, and `too-large` when it
   * can never fit.
   */
  async adopt(bagId: BagId, path: string, length: number): Promise<void> {
    if (length > this.#settings.maxBytes) {
      throw new DriveError('too-large', `${path} is larger than the whole cache.`)
    }
    try {
      const found = lstatSync(path)
      if (!found.isFile() || found.size !== length) {
        throw new DriveError('invalid', `${path} is not a file of ${length} bytes.`)
      }
      await this.#bags.adopt(bagId, path, length)
      this.#unchecked.delete(fileNameOf(bagId))
    } catch (error) {
      throw fromFileSystem(error, `Cannot take ${path} into the cache`)
    }
  }

  /**
   * Gives complete content another name, which must be free; false when it is not all here. It never changes, so both
   * names may lead to one file.
   */
  async linkTo(bagId: BagId, path: string): Promise<boolean> {
    const key = fileNameOf(bagId)
    const { layout, space } = this.#dependencies
    const inUse = this.#bags.get(bagId)
    await inUse?.finalized()
    const idle = space.peek(key)?.kind === 'complete' ? layout.paths(key).complete : undefined
    const from = inUse?.finalPath ?? idle
    return from !== undefined && (await linkOrCopy(from, path))
  }

  /** Lets go of content that no reader has open. */
  forget(bagId: BagId): void {
    const { layout, space } = this.#dependencies
    const key = fileNameOf(bagId)
    const idle = space.take(key)
    if (idle !== undefined) space.track(layout.remove(key, idle.kind))
  }

  /** See `BagCopies.copyTo`. */
  async copyTo(bagId: BagId, path: string, options: CopyOptions = {}): Promise<number> {
    await this.check(bagId)
    return this.#copies.copyTo(this.#bags.use(bagId), path, options)
  }

  /** See `BagCopies.sumOf`. */
  sumOf(bagId: BagId, options: CopyOptions = {}): Promise<ContentSum> {
    return this.#copies.sumOf(this.#bags.use(bagId), options)
  }

  /** See `BagCopies.holds`. */
  holds(bagId: BagId, expected: ContentSum, options: HoldsOptions = {}): Promise<boolean> {
    return this.#copies.holds(this.#bags.use(bagId), expected, options)
  }

  /** The content of these bags stays whatever the limit and the disk's floor are, and that of no others. */
  pin(bagIds: Iterable<BagId>): void {
    this.#dependencies.space.pin(keysOf(bagIds))
  }

  /** Bytes that content more could have on the disk, if all went that may go. */
  attainableBytes(): Promise<number> {
    return this.#dependencies.space.attainableBytes()
  }

  /** What is here of a bag is evicted after all else that is here. */
  renew(bagId: BagId): void {
    this.#dependencies.space.renew(fileNameOf(bagId))
  }

  /**
   * Fetches all of a bag; resolves with its length. `isBehind` lets reads of programs that wait for the service go first.
   * Rejects `local-disk-full` as soon as there is no room to keep it, and as a read would.
   */
  async fetch(bagId: BagId, options: FetchOptions = {}): Promise<number> {
    const { isBehind = false, signal, onProgress } = options
    const bag = this.#bags.use(bagId)
    const { length } = await this.#copies.sumOf(bag, {
      ...options,
      // One that runs far ahead of its reader would not stop for programs.
      staysNear: isBehind,
      beforeBlock: async (copied) => {
        if (!bag.isComplete && bag.receivedBytes < copied) throw noRoomToKeep()
        if (isBehind) await this.#tally.untilNoneWaits(signal)
      },
      ...(onProgress === undefined ? {} : { onProgress }),
    })
    if (this.isComplete(bagId)) return length
    throw noRoomToKeep()
  }

  /** See `BagCopies.confirm`; rejects `corrupt` also when the reader has bytes that turned out to be wrong. */
  async confirm(reader: BagReader, options: CopyOptions = {}): Promise<void> {
    await this.check(reader.bagId)
    await this.#copies.confirm(this.#bags.use(reader.bagId), options)
    reader.check()
  }

  /**
   * The first bytes of a bag, at most `length`, to find out what it is. Shares a download with
   * readers; when there are none, it stops as soon as these bytes are here. Content in doubt comes once,
   * unless it `mustBeSure`.
   */
  async head(bagId: BagId, length: number, options: HeadOptions = {}): Promise<BagHead> {
    const { signal, mustBeSure = false } = options
    const bag = this.#bags.use(bagId)
    const reader = new BagReader(bag, this.#readDispatcher, {
      isProbe: true,
      takesDoubts: !mustBeSure,
    })
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
   * that is `bad` is set aside, and its readers get an error. Rejects `local-io` when it cannot be
   * read, `not-found` when there is no complete content.
   */
  async verify(bagId: BagId): Promise<'good' | 'bad' | 'unknown'> {
    if (!this.isComplete(bagId)) {
      throw new DriveError('not-found', `Bag ${bagId} is not complete in the cache.`)
    }
    if (this.#dependencies.facts.get(bagId)?.sha256 === undefined) return 'unknown'
    const bag = this.#bags.use(bagId)
    const claim = bag.claim({})
    try {
      return (await bag.isAsKnown()) ? 'good' : 'bad'
    } finally {
      bag.release(claim, true)
    }
  }

  stats(): CacheStats {
    const { space } = this.#dependencies
    const open = this.#bags.all()
    return {
      bytes: space.usedBytes,
      maxBytes: this.#settings.maxBytes,
      bags: space.idleBags + open.filter((bag) => bag.receivedBytes > 0 || bag.isComplete).length,
      hits: this.#tally.hits,
      misses: this.#tally.misses,
      downloads: open
        .filter((bag) => bag.isDownloading)
        .map((bag) => ({ bagId: bag.bagId, received: bag.receivedBytes, total: bag.length })),
    }
  }

  /** How often content that was read has been taken back since the cache was opened; see `TakenBack`. */
  get timesTakenBack(): number {
    return this.#dependencies.takenBack.times
  }

  /** Removes all content that is neither open nor pinned. */
  async clear(): Promise<void> {
    this.#dependencies.takenBack.note()
    await this.#dependencies.space.clear()
  }

  /** Stops downloads, puts partial content aside and closes every file. Readers end with it. */
  async close(): Promise<void> {
    await this.#bags.close()
    await this.#background.onIdle()
    await this.#dependencies.space.removalsDone()
  }
}

function keysOf(bagIds: Iterable<BagId>): ReadonlySet<string> {
  return new Set(Array.from(bagIds, fileNameOf))
}

function noRoomToKeep(): DriveError {
  return new DriveError('local-disk-full', 'The cache has no room to keep all of it.', {
    hint: 'Make room on the local disk, or mount with a larger --cache-size.',
  })
}
