import { open, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { interrupted, throwIfAborted } from './abort.ts'
import type { DataRange } from './archive.ts'
import { readExactly, readPieces } from './source.ts'
import type { RandomAccessSource } from './source.ts'
import { SparseWriter } from './sparse-file.ts'
import type { MakeRoom } from './sparse-file.ts'
import { METHOD } from './zip-format.ts'
import type { ZipMember } from './zip-format.ts'

export interface InflateOptions {
  /** Called with the bytes from the start that can be read at the path. */
  readonly onProgress?: (writtenBytes: number) => void
  /** Asked before bytes are written; by default the disk is used until it is full. */
  readonly makeRoom?: MakeRoom
  readonly signal?: AbortSignal
}

/** Where a member's deflated data is, and what its content must be. */
export interface DeflatedPlace {
  readonly source: RandomAccessSource
  readonly range: DataRange
  readonly member: ZipMember
}

const PIECE_BYTES = 256 * 1024
/** Up to this size a member is inflated in one go, which is quicker than a stream. */
const SMALL_BYTES = 128 * 1024

/** Does what `DeflatedContent.inflateTo` promises. */
export async function inflateToFile(
  place: DeflatedPlace,
  path: string,
  options: InflateOptions,
): Promise<void> {
  throwIfAborted(options.signal)
  try {
    const file = await open(path, 'w', 0o600)
    try {
      await inflateInto(file, place, options)
    } finally {
      await file.close()
    }
  } catch (error) {
    await rm(path, { force: true })
    throw translated(error, options.signal)
  }
}

/**
 * The content of a member whose data in the zip is at hand.
 * @throws DriveError `corrupt`, or `too-large` when it inflates to more than the directory tells.
 */
export function wholeContent(data: Buffer, member: ZipMember): Buffer {
  const check = new ContentCheck(member)
  const content = member.method === METHOD.uncompressed ? data : inflateWhole(data, member)
  check.take(content)
  check.end()
  return content
}

function inflateWhole(data: Buffer, member: ZipMember): Buffer {
  try {
    return inflateRawSync(data, { maxOutputLength: Math.max(1, member.size) })
  } catch (error) {
    throw translated(error, undefined)
  }
}

async function inflateInto(
  file: FileHandle,
  place: DeflatedPlace,
  options: InflateOptions,
): Promise<void> {
  const { source, range, member } = place
  const { signal, onProgress, makeRoom } = options
  const target = new SparseWriter(file, makeRoom)
  if (range.length <= SMALL_BYTES && member.size <= SMALL_BYTES) {
    const data = await readExactly(source, range.position, range.length, signal)
    const content = wholeContent(data, member)
    await target.write(content)
    onProgress?.(content.length)
    return
  }
  const check = new ContentCheck(member)
  for await (const chunk of inflated(place, signal)) {
    throwIfAborted(signal)
    check.take(chunk)
    await target.write(chunk)
    onProgress?.(target.length)
  }
  check.end()
}

/**
 * The inflated bytes as they come. Not a `pipeline`: that fails when the deflated data ends before the
 * bytes that the directory counts to it, which is harmless.
 */
async function* inflated(
  place: DeflatedPlace,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  const settings = { pieceBytes: PIECE_BYTES, ...(signal === undefined ? {} : { signal }) }
  const pieces = Readable.from(readPieces(place.source, place.range, settings))
  const inflate = createInflateRaw({ chunkSize: PIECE_BYTES })
  pieces.on('error', (error) => inflate.destroy(error))
  try {
    yield* pieces.pipe(inflate) as AsyncIterable<Buffer>
  } finally {
    pieces.destroy()
    inflate.destroy()
  }
}

/** Compares content with what the directory tells, while it comes. */
class ContentCheck {
  /** Bytes so far. */
  bytes = 0
  readonly #member: ZipMember
  #crc = 0

  constructor(member: ZipMember) {
    this.#member = member
  }

  take(chunk: Uint8Array): void {
    this.bytes += chunk.length
    if (this.bytes > this.#member.size) throw moreThanTold()
    this.#crc = crc32(chunk, this.#crc)
  }

  end(): void {
    if (this.bytes !== this.#member.size) throw damaged('has fewer bytes than its directory tells')
    if (this.#crc !== this.#member.crc32) throw damaged('has a wrong checksum')
  }
}

function moreThanTold(): DriveError {
  return new DriveError('too-large', 'An entry of the zip inflates to more than it tells.')
}

function damaged(how: string, cause?: unknown): DriveError {
  return new DriveError('corrupt', `The zip is damaged: an entry ${how}.`, { cause })
}

/** The one place where zlib's and the stream's errors become ours. */
function translated(error: unknown, signal: AbortSignal | undefined): DriveError {
  if (error instanceof DriveError) return error
  const code = systemErrorCode(error) ?? ''
  if (code === 'ERR_BUFFER_TOO_LARGE') return moreThanTold()
  if (code.startsWith('Z_')) return damaged('cannot be inflated', error)
  if (signal?.aborted === true) return interrupted(signal)
  return fromFileSystem(error, 'Unpacking a part of the folder')
}
