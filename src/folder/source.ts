import { open } from 'node:fs/promises'
import { DriveError, fromFileSystem } from '../domain/errors.ts'

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
  if (position < 0 || position + length > source.length) throw endsEarly(position + length, source)
  const buffer = Buffer.allocUnsafe(length)
  const filled = await source.read(buffer, position, signal)
  if (filled < length) throw endsEarly(position + length, source)
  return buffer
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

function endsEarly(wanted: number, source: RandomAccessSource): DriveError {
  return new DriveError(
    'corrupt',
    `The zip ends early: byte ${wanted} is wanted and it has ${source.length}.`,
  )
}
