import { DriveError } from '../../domain/errors.ts'
import type { OpenFile } from './open-file.ts'

const PIECE_BYTES = 1 << 20

/** Bytes of a file, from `offset` on. */
export interface ByteSpan {
  readonly offset: number
  readonly length: number
}

/** Makes sure that a file is so long; what was not there is zeros. */
export async function lengthen(file: OpenFile, { offset, length }: ByteSpan): Promise<void> {
  refuseReader(file)
  if (offset + length > (await file.length())) await file.truncate(offset + length)
}

/** Writes zeros over what a file has there; it gets no longer. */
export async function writeZeros(file: OpenFile, { offset, length }: ByteSpan): Promise<void> {
  refuseReader(file)
  const end = Math.min(offset + length, await file.length())
  const zeros = Buffer.alloc(Math.max(0, Math.min(PIECE_BYTES, end - offset)))
  for (let at = offset; at < end; at += zeros.length) {
    await file.write(zeros.subarray(0, end - at), at)
  }
}

/** Copies bytes from one open file to another; answers how many there were. */
export async function copyRange(
  from: { readonly file: OpenFile; readonly offset: number },
  to: { readonly file: OpenFile; readonly offset: number },
  length: number,
): Promise<number> {
  const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, length))
  for (let done = 0; ;) {
    const piece = buffer.subarray(0, Math.min(buffer.length, length - done))
    const count = piece.length === 0 ? 0 : await from.file.read(piece, from.offset + done)
    if (count === 0) return done
    await to.file.write(piece.subarray(0, count), to.offset + done)
    done += count
  }
}

function refuseReader({ writable }: OpenFile): void {
  if (!writable) throw new DriveError('bad-handle', 'This file is open for reading only.')
}
