import { DriveError } from '../domain/errors.ts'
import type { DirectoryPlace } from './directory-place.ts'
import { SIGNATURE } from './zip-format.ts'
import { centralRecordLength, isCentralRecord, parseCentralRecord } from './zip-parse.ts'
import type { CentralRecord } from './zip-parse.ts'
import { readPieces } from './source.ts'
import type { RandomAccessSource } from './source.ts'

/** More than the longest record (46 + 3 x 65,535), so that each piece completes at least one. */
const PIECE_BYTES = 1024 * 1024

/**
 * Calls `visit` with each record of the central directory, in its order. Memory is bounded by one
 * piece; the archive's own count is only compared, never used.
 * @throws DriveError `corrupt` when the directory is damaged. Half a directory is never shown: a
 * change made in it would be uploaded without the other half.
 */
export async function readDirectory(
  source: RandomAccessSource,
  place: DirectoryPlace,
  visit: (record: CentralRecord) => void,
  signal?: AbortSignal,
): Promise<void> {
  const range = { position: place.start, length: place.end - place.start }
  let count = 0
  let rest: Buffer = Buffer.alloc(0)
  let position = place.start
  for await (const piece of readPieces(source, range, { pieceBytes: PIECE_BYTES, signal })) {
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    let at = 0
    for (;;) {
      const length = recordLengthAt(bytes, at)
      if (length === undefined) break
      visit(parseCentralRecord(bytes, at, { base: place.base, position }))
      count += 1
      at += length
    }
    position += at
    rest = bytes.subarray(at)
    // The directory may be closed by a digital signature, which programs do not check any more.
    if (isSignature(rest)) break
  }
  if (rest.length > 0 && !isSignature(rest)) throw damaged('ends in the middle of a record')
  checkCount(place, count)
}

/** Bytes of the record at `at`; undefined where the bytes, or the records, end. */
function recordLengthAt(bytes: Buffer, at: number): number | undefined {
  const length = centralRecordLength(bytes, at)
  if (isCentralRecord(bytes, at)) return length
  if (at + 4 > bytes.length || isSignature(bytes.subarray(at))) return undefined
  throw damaged('holds something that is no record')
}

function isSignature(rest: Buffer): boolean {
  return rest.length >= 4 && rest.readUInt32LE(0) === SIGNATURE.digitalSignature
}

/** Writers without zip64 let the 16-bit count overflow; beyond that it must be right. */
function checkCount(place: DirectoryPlace, count: number): void {
  const told = place.countBits === 16 ? count % 0x10000 : count
  if (told !== place.count) throw damaged(`has ${count} records and tells ${place.count}`)
}

function damaged(what: string): DriveError {
  return new DriveError('corrupt', `The zip is damaged: its central directory ${what}.`)
}
