import { randomFillSync } from 'node:crypto'
import {
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { open, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory } from '../disk/make-directory.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError, fromFileSystem, isAbsent, isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'

/** Enough for what is written down while thousands of changes are sent, and for what a database does when it opens. */
export const RESERVE_BYTES = 4 * 1024 * 1024
/** Enough for both databases to open, and for content to come into the cache while what waits goes. */
export const RESERVE_FILES = 32
/** More than a database makes when it opens. */
const OPEN_FILES = 8
/** With less than this nothing new is taken. */
const LEAST_BYTES = 1024 * 1024
const LEAST_FILES = 16
const PIECE_BYTES = 256 * 1024
const LOOK_AGAIN_MS = 1_000

interface ReserveDeps {
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Room on the local disk that is kept for sending what waits: a file of written bytes, `reserve` in the state
 * directory, and empty files in `reserve.files`. A file system may have room for bytes, and for no further file.
 * It is given away when the disk is full, and made again as soon as there is room. While it is out, nothing new is
 * to be staged.
 */
export class Reserve {
  readonly #deps: ReserveDeps
  readonly #dir: string
  #isOut = false
  #cancelTimer: (() => void) | undefined
  #making: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(deps: ReserveDeps, settings: { readonly dir: string }) {
    this.#deps = deps
    this.#dir = settings.dir
  }

  /** True while the room is given away: what is free on the disk is meant for sending. */
  get isOut(): boolean {
    return this.#isOut && !hasPlenty(this.#dir)
  }

  /** Bytes that seem free on the disk and are not, because the reserve is to be made of them. */
  get owedBytes(): number {
    return Math.max(RESERVE_BYTES - sizeIn(this.#dir), 0)
  }

  /** Gives the room away; false when there is none to give. */
  release(): boolean {
    if (!releaseReserve(this.#dir)) return false
    if (!this.#isOut) {
      this.#deps.log.warn({}, 'The local disk is full: nothing new is taken until there is room.')
    }
    this.#isOut = true
    this.#lookAgain()
    return true
  }

  /** Makes it as large as the disk has room for, up to its full size. Never rejects. */
  async make(): Promise<void> {
    this.#making = this.#making.then(() => this.#make())
    await this.#making
  }

  async #make(): Promise<void> {
    try {
      await grow(this.#dir)
    } catch (cause) {
      const error = fromFileSystem(cause, 'No room can be kept on the local disk')
      // A disk without room is looked at again; another error is the business of the next write.
      if (!isDriveError(error, 'local-disk-full')) {
        this.#deps.log.warn({ error: String(error) }, 'No room can be kept on the local disk.')
        this.#isOut = false
        return
      }
    }
    const size = sizeIn(this.#dir)
    const files = filesIn(this.#dir).length
    const isShort = size < LEAST_BYTES || files < LEAST_FILES
    if (this.#isOut && !isShort) this.#deps.log.info({}, 'The local disk has room again.')
    this.#isOut = isShort
    if (size < RESERVE_BYTES || files < RESERVE_FILES) this.#lookAgain()
  }

  #lookAgain(): void {
    if (this.#cancelTimer !== undefined || this.#isClosed) return
    this.#cancelTimer = this.#deps.clock.after(LOOK_AGAIN_MS, () => {
      this.#cancelTimer = undefined
      this.make().catch(() => undefined)
    })
  }

  /** Leaves as much of it as there is room for. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelTimer?.()
    await this.make()
  }
}

/** Gives the reserve of a state directory away; false when there is none. Without it a full disk cannot even be locked. */
export function releaseReserve(dir: string): boolean {
  try {
    const hasFiles = filesIn(dir).length > 0
    rmSync(filesPathIn(dir), { recursive: true, force: true })
    return releaseBytes(dir) || hasFiles
  } catch (error) {
    throw fromFileSystem(error, 'The room that is kept on the local disk cannot be used')
  }
}

function releaseBytes(dir: string): boolean {
  try {
    // What is being made is open: without a name it would keep its room.
    truncateSync(pathIn(dir))
    unlinkSync(pathIn(dir))
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    throw error
  }
}

/** True when a file of `bytes`, and a few small ones, cannot be written in `dir` for want of room. */
export async function lacksRoom(dir: string, bytes: number): Promise<boolean> {
  try {
    await useRoom(join(dir, `room.${process.pid}`), bytes)
    return false
  } catch (error) {
    return isDriveError(fromFileSystem(error, 'Room on the local disk'), 'local-disk-full')
  }
}

async function useRoom(path: string, bytes: number): Promise<void> {
  makeDirectory(path)
  try {
    makeFiles(path, OPEN_FILES)
    await append(join(path, 'bytes'), bytes)
  } finally {
    await rm(path, { recursive: true, force: true })
  }
}

async function grow(dir: string): Promise<void> {
  if (filesIn(dir).length < RESERVE_FILES) {
    makeDirectory(filesPathIn(dir))
    makeFiles(filesPathIn(dir), RESERVE_FILES)
  }
  const { bavail, bsize } = await statfs(dir)
  const missing = RESERVE_BYTES - sizeIn(dir)
  const bytes = Math.min(missing, bavail * bsize)
  if (bytes < Math.min(missing, PIECE_BYTES)) throw new DriveError('local-disk-full', 'No room.')
  if (bytes > 0) await append(pathIn(dir), bytes)
}

function makeFiles(dir: string, count: number): void {
  for (let at = 0; at < count; at += 1) writeFileSync(join(dir, `${at}`), '', { mode: 0o600 })
}

/** Random bytes: a file system that packs what is alike would keep no room for others. */
async function append(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'a', 0o600)
  try {
    for (let left = bytes; left > 0; left -= PIECE_BYTES) {
      if ((await file.stat()).nlink === 0) return
      await file.writeFile(randomFillSync(Buffer.allocUnsafe(Math.min(left, PIECE_BYTES))))
    }
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Room may have come since it was last looked for: for the reserve, and as much again. */
function hasPlenty(dir: string): boolean {
  const { bavail, bsize } = statfsSync(dir)
  return bavail * bsize >= 2 * RESERVE_BYTES && freeFilesOf(dir) >= 2 * RESERVE_FILES
}

/** Files that can still be made on the disk of a directory; Infinity where the file system does not count them. */
export function freeFilesOf(dir: string): number {
  const { files, ffree } = statfsSync(dir)
  return files === 0 ? Infinity : ffree
}

function sizeIn(dir: string): number {
  return statSync(pathIn(dir), { throwIfNoEntry: false })?.size ?? 0
}

function filesIn(dir: string): readonly string[] {
  try {
    return readdirSync(filesPathIn(dir))
  } catch (error) {
    if (isAbsent(error)) return []
    throw error
  }
}

function pathIn(dir: string): string {
  return join(dir, 'reserve')
}

function filesPathIn(dir: string): string {
  return join(dir, 'reserve.files')
}
