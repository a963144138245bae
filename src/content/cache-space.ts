import { statfs } from 'node:fs/promises'
import { LRUCache } from 'lru-cache'
import { fromFileSystem } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { CacheLayout, FilesOfBag, CacheFileKind } from './cache-layout.ts'

/** Free space is asked for again after this much was written, so at most this much late. */
const ASK_EVERY_BYTES = 8 * 1024 * 1024

export interface CacheSpaceSettings {
  readonly dir: string
  readonly maxBytes: number
  readonly minFreeBytes: number
}

export interface CacheSpaceDependencies {
  readonly layout: CacheLayout
  readonly log: Logger
  /** Bytes that a program without privileges may still write in `dir`. */
  readonly freeBytes: (dir: string) => Promise<number>
}

/** The disk of the cache, for what is kept on it beside the cache. */
export interface DiskRoom {
  /** Bytes that the disk takes until its free-space floor is reached; negative below it. */
  spareBytes(): Promise<number>
  /** Removes the least recently used content; false when there is none that may go. */
  evictOne(): Promise<boolean>
}

/** As `DiskRoom`, with what is given up last. */
export interface LastDiskRoom extends DiskRoom {
  /** Removes pinned content, for what would fail otherwise: it can be had again. False when there is none. */
  evictPinned(): Promise<boolean>
  /** Bytes that the disk takes at all, its free-space floor given up. */
  freeBytes(): Promise<number>
}

interface IdleContent {
  readonly key: string
  readonly kind: CacheFileKind
  readonly bytes: number
}

/** What one bag in use may hold where there is no room, and the part of the limit that it may be. */
export const WINDOW_BYTES = 16 * 1024 * 1024
const LEAST_WINDOW_BYTES = 1024 * 1024
const WINDOW_SHARE = 16

/**
 * Keeps the cache within its bytes and the disk above its free-space floor, as bytes arrive.
 *
 * Idle content is in an LRU cache and can be evicted. Content in use is only counted: to unlink an
 * open file would free nothing. So what is open may pass the limit by a window for each bag. When
 * it is closed, the least recently used content goes until the limit holds again. Pinned content counts
 * as all other does, and stays where the limit is lower than what it takes.
 */
export class CacheSpace implements LastDiskRoom {
  readonly #layout: CacheLayout
  readonly #log: Logger
  readonly #freeBytes: (dir: string) => Promise<number>
  readonly #settings: CacheSpaceSettings
  readonly #idle: LRUCache<string, IdleContent>
  /** What is idle and pinned. */
  readonly #kept = new Map<string, IdleContent>()
  #pinned: ReadonlySet<string> = new Set()
  #keptBytes = 0
  readonly #removals = new Set<Promise<void>>()
  readonly #retiring = new Set<Promise<void>>()
  #inUseBytes = 0
  #writtenSinceAsked = Infinity

  constructor(dependencies: CacheSpaceDependencies, settings: CacheSpaceSettings) {
    this.#layout = dependencies.layout
    this.#log = dependencies.log
    this.#freeBytes = dependencies.freeBytes
    this.#settings = settings
    this.#idle = new LRUCache({
      maxSize: settings.maxBytes,
      sizeCalculation: ({ bytes }) => Math.max(1, bytes),
      dispose: ({ key, kind }, _, reason) => {
        // 'delete' means in use again; 'set' means that the caller replaced the files itself.
        if (reason === 'evict') this.#remove(key, kind)
      },
    })
  }

  get usedBytes(): number {
    return this.#idle.calculatedSize + this.#keptBytes + this.#inUseBytes
  }

  /** What one bag may hold where no room can be made, in bytes. */
  get windowBytes(): number {
    const share = Math.floor(this.#settings.maxBytes / WINDOW_SHARE)
    return Math.min(WINDOW_BYTES, Math.max(LEAST_WINDOW_BYTES, share))
  }

  get idleBags(): number {
    return this.#idle.size + this.#kept.size
  }

  /** From now on the content of these keys is pinned, and no other. */
  pin(keys: ReadonlySet<string>): void {
    this.#pinned = keys
    for (const content of [...this.#kept.values()]) {
      if (keys.has(content.key)) continue
      this.#unkeep(content)
      this.putBack(content.key, content.kind, content.bytes)
    }
    for (const key of keys) {
      const content = this.#idle.peek(key)
      if (content === undefined) continue
      this.#idle.delete(key)
      this.#keep(content)
    }
  }

  /** Takes in what is on disk already, least recently used first. */
  load(found: readonly FilesOfBag[]): void {
    for (const { key, kind, bytes } of found) this.putBack(key, kind, bytes)
    // A limit that was lowered since the last run holds from the start.
    this.#evictOverLimit()
  }

  /** What is on disk under this key and not in use, or undefined. */
  peek(key: string): IdleContent | undefined {
    return this.#idle.peek(key) ?? this.#kept.get(key)
  }

  /** It is evicted after all that is here now. */
  renew(key: string): void {
    this.#idle.get(key)
  }

  /** Takes content into use; its bytes are then counted with `adjust`. */
  take(key: string): IdleContent | undefined {
    const content = this.peek(key)
    this.#idle.delete(key)
    if (content !== undefined && this.#kept.get(key) === content) this.#unkeep(content)
    return content
  }

  /**
   * Makes content idle, as the most recently used. Content that alone passes the limit is removed
   * at once, so that it does not drive out all the rest first. Of bad content only the last stays.
   */
  putBack(key: string, kind: CacheFileKind, bytes: number): void {
    if (kind === 'bad') this.#forgetBad(key)
    else if (this.#pinned.has(key)) {
      this.#keep({ key, kind, bytes })
      this.#evictOverLimit()
      return
    }
    if (bytes > this.#settings.maxBytes) {
      this.#remove(key, kind)
      return
    }
    this.#idle.set(kind === 'bad' ? badKey(key) : key, { key, kind, bytes })
    this.#evictOverLimit()
  }

  /** Counts bytes of content in use: more (positive) or fewer (negative). */
  adjust(bytes: number): void {
    this.#inUseBytes += bytes
  }

  /**
   * Makes room for `bytes` that are about to be written and counts them as in use.
   * Resolves `false` when the limit or the disk's floor is passed and nothing is left to evict.
   */
  async reserve(bytes: number): Promise<boolean> {
    this.#inUseBytes += bytes
    this.#evictOverLimit()
    while (this.usedBytes > this.#settings.maxBytes && this.#retiring.size > 0) {
      await Promise.race(this.#retiring)
      this.#evictOverLimit()
    }
    if (this.#removals.size > 0) await this.removalsDone()
    this.#writtenSinceAsked += bytes
    const isAboveFloor = this.#writtenSinceAsked < ASK_EVERY_BYTES || (await this.#keepFloor())
    return isAboveFloor && this.usedBytes <= this.#settings.maxBytes
  }

  /** As `reserve`, where nothing has to be evicted, waited for or asked; else false, with nothing counted. */
  reserveNow(bytes: number): boolean {
    const isOver = this.usedBytes + bytes > this.#settings.maxBytes
    if (isOver || this.#removals.size > 0) return false
    if (this.#writtenSinceAsked + bytes >= ASK_EVERY_BYTES) return false
    this.#inUseBytes += bytes
    this.#writtenSinceAsked += bytes
    return true
  }

  /** Evicts the least recently used content, to make room where the disk was full. */
  async evictOne(): Promise<boolean> {
    const oldest = this.#evictOldest()
    await this.removalsDone()
    return oldest
  }

  async evictPinned(): Promise<boolean> {
    const [content] = this.#kept.values()
    if (content === undefined) return false
    this.#unkeep(content)
    this.#remove(content.key, content.kind)
    this.#log.info({ key: content.key }, 'Pinned content gave way to what a program writes.')
    await this.removalsDone()
    return true
  }

  /** Tells that content in use is about to become idle; `retired` must not reject. */
  expect(retired: Promise<void>): void {
    const expected = retired.finally(() => this.#retiring.delete(expected))
    this.#retiring.add(expected)
  }

  /** Evicts all that is neither in use nor pinned. */
  async clear(): Promise<void> {
    await Promise.all(this.#retiring)
    while (this.#evictOldest());
    await this.removalsDone()
  }

  /** Counts a removal among those that `removalsDone` waits for; it must not reject. */
  track(removal: Promise<void>): void {
    const tracked = removal.finally(() => this.#removals.delete(tracked))
    this.#removals.add(tracked)
  }

  /** Resolves when evicted content is off the disk. */
  async removalsDone(): Promise<void> {
    await Promise.all(this.#removals)
  }

  async #keepFloor(): Promise<boolean> {
    for (;;) {
      const spare = await this.spareBytes()
      if (spare >= 0) {
        // Close to the floor it is asked more often, so that it is not passed unseen.
        this.#writtenSinceAsked = Math.max(0, ASK_EVERY_BYTES - spare)
        return true
      }
      this.#writtenSinceAsked = Infinity
      if (!(await this.evictOne())) return false
    }
  }

  async spareBytes(): Promise<number> {
    return (await this.freeBytes()) - this.#settings.minFreeBytes
  }

  /** Bytes that content more could have on the disk, if all went that may go. */
  async attainableBytes(): Promise<number> {
    return (await this.spareBytes()) + this.#idle.calculatedSize
  }

  async freeBytes(): Promise<number> {
    try {
      return await this.#freeBytes(this.#settings.dir)
    } catch (error) {
      throw fromFileSystem(error, 'Cannot tell how much space is free for the cache')
    }
  }

  #evictOverLimit(): void {
    while (this.usedBytes > this.#settings.maxBytes && this.#evictOldest());
  }

  #evictOldest(): boolean {
    if (this.#idle.size === 0) return false
    const [oldest] = this.#idle.rkeys()
    this.#idle.pop()
    this.#log.debug({ key: oldest, usedBytes: this.usedBytes }, 'Evicted content from the cache.')
    return true
  }

  #keep(content: IdleContent): void {
    const before = this.#kept.get(content.key)
    if (before !== undefined) this.#unkeep(before)
    this.#kept.set(content.key, content)
    this.#keptBytes += content.bytes
  }

  #unkeep({ key, bytes }: IdleContent): void {
    this.#kept.delete(key)
    this.#keptBytes -= bytes
  }

  #forgetBad(except: string): void {
    for (const [name, { key, kind, bytes }] of [...this.#idle.entries()]) {
      if (kind !== 'bad') continue
      this.#idle.delete(name)
      if (key !== except) this.#remove(key, kind)
      this.#log.debug({ key, bytes }, 'Forgot earlier bad content.')
    }
  }

  #remove(key: string, kind: CacheFileKind): void {
    this.track(this.#layout.remove(key, kind))
  }
}

function badKey(key: string): string {
  return `${key}.bad`
}

/** Free bytes as the file system tells them. */
export async function freeBytesOf(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir)
  return bavail * bsize
}
