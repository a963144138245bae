import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, renameSync, rmSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import type { DiskRoom } from '../../content/cache-space.ts'
import { RoomMeter } from '../../content/room-meter.ts'
import { WINDOW_BYTES } from '../../content/cache-space.ts'
import { makeDirectory } from '../../disk/make-directory.ts'
import { deferred, type Deferred } from '../../domain/deferred.ts'
import { DriveError, fromFileSystem } from '../../domain/errors.ts'
import type { InflateOptions } from '../../zip/inflate.ts'
import type { Source } from '../tree/source.ts'

/** Writes content to `path`, after `makeRoom` has let it; see `DeflatedContent.inflateTo`. */
export type Inflate = (path: string, options: Required<InflateOptions>) => Promise<void>

interface InflatedFilesSettings {
  readonly dir: string
  /** What is not open and all together larger than this is not kept. */
  readonly maxBytes: number
  /** Whose free-space floor holds while content is inflated. */
  readonly room: DiskRoom
}

/** Content that is being inflated, or is done. */
interface Inflation {
  path: string
  readonly length: number
  readonly abort: AbortController
  bytes: number
  done: boolean
  failure: Error | undefined
  users: number
  /** Resolves at the next progress; renewed each time. */
  next: Deferred
}

/**
 * Deflated entries, inflated once onto the local disk and read from there, also while they arrive.
 * What no reader has open is bounded; the least recently used go first. What is larger than the bound goes
 * when its last reader does. What the disk has no room for above its floor is not inflated, but for a little.
 */
export class InflatedFiles {
  readonly #dir: string
  readonly #maxBytes: number
  readonly #room: DiskRoom
  /** Lengths of what no reader has open. */
  readonly #idle: LRUCache<string, number>
  /** Under way, or open. */
  readonly #used = new Map<string, Inflation>()

  #parts = 0

  private constructor({ dir, maxBytes, room }: InflatedFilesSettings) {
    this.#dir = dir
    this.#maxBytes = maxBytes
    this.#room = room
    this.#idle = new LRUCache({
      maxSize: Math.max(maxBytes, 1),
      sizeCalculation: (bytes) => Math.max(bytes, 1),
      dispose: (_bytes, key, reason) => {
        if (reason === 'evict') rmSync(join(dir, key), { force: true })
      },
    })
  }

  /** Takes up what an earlier process left whole; halves are removed. */
  static async open(settings: InflatedFilesSettings): Promise<InflatedFiles> {
    const dir = join(settings.dir, 'v1')
    try {
      makeDirectory(dir)
      const files = new InflatedFiles({ ...settings, dir })
      for (const name of await readdir(dir)) {
        const path = join(dir, name)
        const bytes = /^[0-9a-f]{64}$/.test(name) ? (await stat(path)).size : Infinity
        if (bytes <= settings.maxBytes) files.#idle.set(name, bytes)
        else await rm(path, { force: true, recursive: true })
      }
      return files
    } catch (error) {
      throw fromFileSystem(error, 'The inflated content cannot be kept')
    }
  }

  /** Content named by `key` (any text), of `length` bytes; `inflate` is called when it is not here. */
  open(key: string, length: number, inflate: Inflate): Source {
    const name = createHash('sha256').update(key).digest('hex')
    const file =
      this.#used.get(name) ?? this.#takeUp(name, length) ?? this.#begin(name, length, inflate)
    file.users += 1
    return new InflatedSource(file, () => {
      this.#leave(name, file)
    })
  }

  close(): void {
    for (const inflation of this.#used.values()) inflation.abort.abort()
  }

  #takeUp(name: string, length: number): Inflation | undefined {
    if (this.#idle.get(name) !== length) return undefined
    this.#idle.delete(name)
    const file = done(join(this.#dir, name), length)
    this.#used.set(name, file)
    return file
  }

  #begin(name: string, length: number, inflate: Inflate): Inflation {
    // Another one of this name may be on its way to its end.
    this.#parts += 1
    const part = join(this.#dir, `${name}.${this.#parts}.part`)
    const inflation: Inflation = { ...done(part, length), done: false, bytes: 0 }
    this.#used.set(name, inflation)
    const room = new RoomMeter((bytes) => this.#hasRoom(bytes), WINDOW_BYTES)
    const options = {
      signal: inflation.abort.signal,
      makeRoom: (bytes: number) => room.take(bytes),
      onProgress: (bytes: number) => {
        inflation.bytes = bytes
        advance(inflation)
      },
    }
    inflate(part, options)
      .then(() => {
        this.#finish(name, inflation)
      })
      .catch((error: unknown) => {
        this.#fail(name, inflation, error)
      })
    return inflation
  }

  /** What can be inflated again goes before what would have to be downloaded again. */
  async #hasRoom(bytes: number): Promise<boolean> {
    while ((await this.#room.spareBytes()) < bytes) {
      if (!this.evictOne() && !(await this.#room.evictOne())) return false
    }
    return true
  }

  /** Removes what was used least recently; false when there is none. What is open would leave no room, and be missed. */
  evictOne(): boolean {
    return this.#idle.pop() !== undefined
  }

  #finish(name: string, inflation: Inflation): void {
    inflation.done = true
    inflation.bytes = inflation.length
    if (this.#used.get(name) !== inflation) rmSync(inflation.path, { force: true })
    else if (inflation.length <= this.#maxBytes) {
      const path = join(this.#dir, name)
      renameSync(inflation.path, path)
      inflation.path = path
    }
    advance(inflation)
  }

  #fail(name: string, inflation: Inflation, error: unknown): void {
    inflation.failure = fromFileSystem(error, 'An entry of a zip cannot be inflated')
    if (this.#used.get(name) === inflation) this.#used.delete(name)
    advance(inflation)
  }

  /** The last reader is gone, also while it is still inflated. */
  #leave(name: string, inflation: Inflation): void {
    inflation.users -= 1
    if (inflation.users > 0 || this.#used.get(name) !== inflation) return
    this.#used.delete(name)
    if (!inflation.done) inflation.abort.abort()
    else if (inflation.length <= this.#maxBytes) this.#idle.set(name, inflation.length)
    else rmSync(inflation.path, { force: true })
  }
}

function done(path: string, length: number): Inflation {
  return {
    path,
    length,
    abort: new AbortController(),
    bytes: length,
    done: true,
    failure: undefined,
    users: 0,
    next: deferred(),
  }
}

function advance(inflation: Inflation): void {
  const { next } = inflation
  inflation.next = deferred()
  next.resolve()
}

class InflatedSource implements Source {
  readonly #inflation: Inflation
  readonly #onClose: () => void
  #fd: number | undefined
  #closed = false

  constructor(inflation: Inflation, onClose: () => void) {
    this.#inflation = inflation
    this.#onClose = onClose
  }

  length(): Promise<number> {
    return Promise.resolve(this.#inflation.length)
  }

  async read(buffer: Uint8Array, position: number): Promise<number> {
    for (;;) {
      const count = this.readNow(buffer, position)
      if (count !== undefined) return count
      await this.#inflation.next.promise
    }
  }

  readNow(buffer: Uint8Array, position: number): number | undefined {
    const { bytes, length, failure, done } = this.#inflation
    if (this.#closed) throw new DriveError('bad-handle', 'This file is closed.')
    if (failure !== undefined) throw failure
    const wanted = Math.max(0, Math.min(buffer.length, length - position))
    if (wanted === 0) return 0
    if (bytes < position + wanted) return undefined
    // The end waits for the checksum: a reader must not take damaged content for whole.
    if (!done && position + wanted === length) return undefined
    this.#fd ??= openForReading(this.#inflation.path)
    try {
      return readSync(this.#fd, buffer, 0, wanted, position)
    } catch (error) {
      throw fromFileSystem(error, 'Inflated content cannot be read')
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#onClose()
  }
}

function openForReading(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (error) {
    throw fromFileSystem(error, 'Inflated content cannot be read')
  }
}
