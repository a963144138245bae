import { open } from 'node:fs/promises'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { ahead } from './ahead.ts'

/**
 * Bytes that can be read at any position: a file in the cache, or a bag behind range requests.
 *
 * `read` fills `buffer` from `position` and resolves with the number of bytes it filled; fewer than
 * asked for only at the end of the source. Rejections are DriveErrors.
 */
export interface RandomAccessSource {
  /** Bytes. */
  readonly length: number
  read(buffer: Uint8Array, position: number, signal?: AbortSignal): Promise<number>
  /** As `read`, at once; undefined when the bytes must be waited for. Not every source can tell. */
  readNow?(buffer: Uint8Array, position: number): number | undefined
}

/** A source that holds a descriptor until it is closed. */
export interface FileSource extends RandomAccessSource {
  close(): Promise<void>
}

/** Opens a local file as a source. Its length is taken once, at opening. */
export async function fileSource(path: string): Promise<FileSource> {
  const what = `Reading ${path}`
  try {
    const handle = await open(path, 'r')
    const { size } = await handle.stat()
    return {
      length: size,
      read: async (buffer, position) => {
        try {
          return await readUntilFull(buffer, (rest, filled) =>
            handle.read(rest, 0, rest.length, position + filled).then((done) => done.bytesRead),
          )
        } catch (error) {
          throw fromFileSystem(error, what)
        }
      },
      close: () => handle.close(),
    }
  } catch (error) {
    throw fromFileSystem(error, what)
  }
}

/** Calls `read` for what is still missing until the buffer is full or `read` finds nothing more. */
async function readUntilFull(
  buffer: Uint8Array,
  read: (rest: Uint8Array, filled: number) => Promise<number>,
): Promise<number> {
  let filled = 0
  while (filled < buffer.length) {
    const count = await read(buffer.subarray(filled), filled)
    if (count === 0) break
    filled += count
  }
  return filled
}

/**
 * Reads exactly `length` bytes. Callers bound `length` by what the source has or by a constant of
 * the format, never by a number found in the archive alone.
 * @throws DriveError `corrupt` when the source ends before.
 */
export async function readExactly(
  source: RandomAccessSource,
  position: number,
  length: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  checkWithin(source, position, length)
  const buffer = Buffer.allocUnsafe(length)
  await fill(source, buffer, position, signal)
  return buffer
}

/** As `readExactly`, at once; undefined when the bytes must be waited for. */
export function readExactlyNow(
  source: RandomAccessSource,
  position: number,
  length: number,
): Buffer | undefined {
  checkWithin(source, position, length)
  const buffer = Buffer.allocUnsafe(length)
  const filled = source.readNow?.(buffer, position)
  if (filled === undefined) return undefined
  if (filled < length) throw endsEarly(position + length, source)
  return buffer
}

/** Fills all of `buffer` from `position`. @throws DriveError `corrupt` when the source ends before. */
async function fill(
  source: RandomAccessSource,
  buffer: Uint8Array,
  position: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const filled = await source.read(buffer, position, signal)
  if (filled < buffer.length) throw endsEarly(position + buffer.length, source)
}

function checkWithin(source: RandomAccessSource, position: number, length: number): void {
  if (position < 0 || position + length > source.length) throw endsEarly(position + length, source)
}

/** Yields the bytes of a range in pieces of at most `pieceBytes`. */
export async function* readPieces(
  source: RandomAccessSource,
  range: { readonly position: number; readonly length: number },
  settings: { readonly pieceBytes: number; readonly signal?: AbortSignal | undefined },
): AsyncGenerator<Buffer> {
  const end = range.position + range.length
  for (let position = range.position; position < end; position += settings.pieceBytes) {
    const length = Math.min(settings.pieceBytes, end - position)
    yield await readExactly(source, position, length, settings.signal)
  }
}

/**
 * As `readPieces`, with the next piece being read while the reader handles one. A piece is valid until
 * the next one is asked for: its memory is used again.
 */
export async function* readPiecesAhead(
  source: RandomAccessSource,
  range: { readonly position: number; readonly length: number },
  settings: { readonly pieceBytes: number; readonly signal?: AbortSignal | undefined },
): AsyncGenerator<Buffer> {
  const { pieceBytes, signal } = settings
  const bufferBytes = Math.min(pieceBytes, range.length)
  checkWithin(source, range.position, range.length)
  const buffers = [Buffer.allocUnsafe(bufferBytes), Buffer.allocUnsafe(bufferBytes)] as const
  const indexes = Array.from({ length: Math.ceil(range.length / pieceBytes) }, (_, index) => index)
  yield* ahead(indexes, buffers.length, async (index) => {
    const start = index * pieceBytes
    const piece = buffers[index % 2 === 0 ? 0 : 1].subarray(0, range.length - start)
    await fill(source, piece, range.position + start, signal)
    return piece
  })
}

function endsEarly(wanted: number, source: RandomAccessSource): DriveError {
  return new DriveError(
    'corrupt',
    `The zip ends early: byte ${wanted} is wanted and it has ${source.length}.`,
  )
}
