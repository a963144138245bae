import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { DriveError, fromFileSystem } from '../../domain/errors.ts'
import { RangeSet } from '../../domain/ranges.ts'

/** The bytes that content has now. */
interface Changing {
  readNow(buffer: Uint8Array, position: number): number
}

/** What the journal promised of content when it was closed or synced last. */
export interface Closed {
  readonly length: number
  /** Operations in the journal so far: a later one that names the content promises it anew. */
  readonly operations: number
}

/** How an undo file begins: the length of the closed content, operations, and the sum of both. */
const HEAD_BYTES = 20
/** Before each piece: its position, its length, and the sum of both and of its bytes. */
const PIECE_HEAD_BYTES = 16
const PIECE_BYTES = 1 << 20

/**
 * Keeps content as it was closed while it is changed in place: bytes go to a file beside it before they
 * change for the first time. That file laid over the content, and cut, is what was closed.
 */
export class Undo {
  readonly path: string
  /** True once the journal promises the content as it is: a kill leaves that, and not what was closed. */
  isOutdated = false
  readonly #closed: Closed
  readonly #saved = new RangeSet()
  #fd: number | undefined
  #end = 0

  constructor(path: string, closed: Closed) {
    this.path = path
    this.#closed = closed
  }

  /** Of the closed content. */
  get length(): number {
    return this.#closed.length
  }

  /** True once the content may have changed. */
  get isBegun(): boolean {
    return this.#fd !== undefined
  }

  /**
   * To be called before bytes in [start, end) change, or are cut off, and before content is appended.
   * Throws when they cannot be kept: then they must not change.
   */
  keep(content: Changing, start: number, end: number): void {
    for (let at = start; at < Infinity;) at = this.#keepPiece(content, at, end)
  }

  /** Keeps all from `start` on; others have their turn in between. */
  async keepFrom(content: Changing, start: number): Promise<void> {
    for (let at = start; at < Infinity;) {
      at = this.#keepPiece(content, at, Infinity)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** Keeps some, from the first position on that is not kept; answers where to go on, Infinity at the end. */
  #keepPiece(content: Changing, start: number, end: number): number {
    this.#fd ??= this.#begin()
    const from = this.#saved.firstGap(start)
    const until = Math.min(end, this.length)
    if (from >= until) return Infinity
    const limit = Math.min(until, this.#saved.firstPresent(from), from + PIECE_BYTES)
    this.#append(this.#fd, pieceOf(content, from, limit))
    this.#saved.add(from, limit)
    return limit
  }

  #begin(): number {
    try {
      mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
      return this.#headed(openSync(this.path, 'w', 0o600))
    } catch (error) {
      throw fromFileSystem(error, 'What was closed cannot be kept')
    }
  }

  #headed(fd: number): number {
    try {
      this.#append(fd, headOf(this.#closed))
      return fd
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  /** All or nothing. */
  #append(fd: number, bytes: Buffer): void {
    try {
      for (let done = 0; done < bytes.length;) {
        done += writeSync(fd, bytes, done, bytes.length - done, this.#end + done)
      }
    } catch (error) {
      ftruncateSync(fd, this.#end)
      throw fromFileSystem(error, 'What was closed cannot be kept')
    }
    this.#end += bytes.length
  }

  /** What was closed is of no more use. */
  drop(): void {
    if (this.#fd === undefined) return
    closeSync(this.#fd)
    this.#fd = undefined
    rmSync(this.path, { force: true })
  }

  /** Makes `path`, a copy of the content, what was closed. */
  async layOver(path: string): Promise<void> {
    if (this.isBegun) await layOver(this.path, path)
  }
}

function headOf({ length, operations }: Closed): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeBigUInt64LE(BigInt(length), 0)
  head.writeBigUInt64LE(BigInt(operations), 8)
  head.writeUInt32LE(crc32(head.subarray(0, 16)), 16)
  return head
}

function pieceOf(content: Changing, start: number, end: number): Buffer {
  const piece = Buffer.allocUnsafe(PIECE_HEAD_BYTES + end - start)
  const bytes = piece.subarray(PIECE_HEAD_BYTES)
  if (content.readNow(bytes, start) < bytes.length) {
    throw new DriveError('local-io', 'Staged content is shorter than it was when it was closed.')
  }
  piece.writeBigUInt64LE(BigInt(start), 0)
  piece.writeUInt32LE(bytes.length, 8)
  piece.writeUInt32LE(crc32(bytes, crc32(piece.subarray(0, 12))), 12)
  return piece
}

/** What an undo file was made for; undefined when it has not been begun. */
export async function readClosed(path: string): Promise<Closed | undefined> {
  const file = await open(path, 'r')
  try {
    return await readHead(file)
  } finally {
    await file.close()
  }
}

async function readHead(file: FileHandle): Promise<Closed | undefined> {
  const head = await readFully(file, 0, HEAD_BYTES)
  if (head === undefined || head.readUInt32LE(16) !== crc32(head.subarray(0, 16))) return undefined
  return {
    length: Number(head.readBigUInt64LE(0)),
    operations: Number(head.readBigUInt64LE(8)),
  }
}

/**
 * Makes content what it was when it was closed; on disk when this resolves. May be done again. A last
 * piece that is not whole was cut by a kill, before its bytes were changed.
 */
export async function layOver(undo: string, content: string): Promise<void> {
  const from = await open(undo, 'r')
  try {
    const closed = await readHead(from)
    if (closed === undefined) return
    const to = await open(content, 'r+')
    try {
      for (let at = HEAD_BYTES; ;) {
        const piece = await readPiece(from, at)
        if (piece === undefined) break
        await to.write(piece.bytes, 0, piece.bytes.length, piece.position)
        at += PIECE_HEAD_BYTES + piece.bytes.length
      }
      await to.truncate(closed.length)
      await to.sync()
    } finally {
      await to.close()
    }
  } catch (error) {
    throw fromFileSystem(error, 'A file cannot be made what it was when it was closed')
  } finally {
    await from.close()
  }
}

/** Undefined when the file ends before. */
async function readFully(
  file: FileHandle,
  position: number,
  length: number,
): Promise<Buffer | undefined> {
  const bytes = Buffer.allocUnsafe(length)
  for (let done = 0; done < length;) {
    const { bytesRead } = await file.read(bytes, done, length - done, position + done)
    if (bytesRead === 0) return undefined
    done += bytesRead
  }
  return bytes
}

async function readPiece(file: FileHandle, at: number) {
  const head = await readFully(file, at, PIECE_HEAD_BYTES)
  const length = head?.readUInt32LE(8) ?? 0
  if (head === undefined || length > PIECE_BYTES) return undefined
  const bytes = await readFully(file, at + PIECE_HEAD_BYTES, length)
  if (bytes === undefined) return undefined
  if (crc32(bytes, crc32(head.subarray(0, 12))) !== head.readUInt32LE(12)) return undefined
  return { position: Number(head.readBigUInt64LE(0)), bytes }
}
