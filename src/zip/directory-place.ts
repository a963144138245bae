import { DriveError } from '../domain/errors.ts'
import { LENGTH, MAX_16, MAX_32, OWN_COMMENT, SIGNATURE } from './zip-format.ts'
import { readUInt64 } from './zip-parse.ts'
import { readExactly } from './source.ts'
import type { RandomAccessSource } from './source.ts'

/** Where the central directory is. */
export interface DirectoryPlace {
  /** Position of its first record in the source. */
  readonly start: number
  /** Position after its last record. */
  readonly end: number
  /** Bytes before the archive (a self-extracting program); added to every offset that it tells. */
  readonly base: number
  /** How many records the archive says there are; `countBits` of them are certain. */
  readonly count: number
  readonly countBits: 16 | 64
  /** True when this program wrote the archive (`OWN_COMMENT`). */
  readonly own: boolean
}

/** What the end record, or its zip64 form, tells. */
interface EndRecord {
  readonly disk: number
  readonly count: number
  readonly countBits: 16 | 64
  readonly size: number
  readonly offset: number
  /** Position of the record: the directory stands right before it. */
  readonly position: number
}

/** Archives whose comments hold many end signatures are refused, not tried at length. */
const MAX_CANDIDATES = 64

/**
 * Finds the central directory from the end of the source.
 * @throws DriveError `corrupt` when there is none, `unsupported` when the archive spans several files.
 */
export async function findDirectory(
  source: RandomAccessSource,
  signal?: AbortSignal,
): Promise<DirectoryPlace> {
  const tailLength = Math.min(source.length, LENGTH.end + MAX_16)
  const tailStart = source.length - tailLength
  const tail = await readExactly(source, tailStart, tailLength, signal)
  for (const at of endCandidates(tail)) {
    const comment = tail.subarray(at + LENGTH.end, at + LENGTH.end + tail.readUInt16LE(at + 20))
    const end = await readEnd(source, tail.subarray(at, at + LENGTH.end), tailStart + at, signal)
    const place = await placeOf(source, end, signal)
    if (place !== undefined) return { ...place, own: comment.toString('latin1') === OWN_COMMENT }
  }
  throw new DriveError('corrupt', 'This is no whole zip: its central directory is missing.')
}

/** Offsets of end records in the tail: first those whose comment reaches to the end, the last before the first. */
function endCandidates(tail: Buffer): number[] {
  const exact: number[] = []
  const other: number[] = []
  for (let at = tail.length - LENGTH.end; at >= 0; at -= 1) {
    if (tail[at] !== 0x50 || tail.readUInt32LE(at) !== SIGNATURE.end) continue
    const isExact = at + LENGTH.end + tail.readUInt16LE(at + 20) === tail.length
    ;(isExact ? exact : other).push(at)
  }
  return [...exact, ...other].slice(0, MAX_CANDIDATES)
}

async function readEnd(
  source: RandomAccessSource,
  record: Buffer,
  position: number,
  signal: AbortSignal | undefined,
): Promise<EndRecord> {
  const end: EndRecord = {
    disk: record.readUInt16LE(4),
    count: record.readUInt16LE(10),
    countBits: 16,
    size: record.readUInt32LE(12),
    offset: record.readUInt32LE(16),
    position,
  }
  const isFull = end.count === MAX_16 || end.size === MAX_32 || end.offset === MAX_32
  return (isFull ? await readZip64End(source, position, signal) : undefined) ?? end
}

/** The zip64 end record, at the place its locator tells or right before the locator; undefined without one. */
async function readZip64End(
  source: RandomAccessSource,
  endPosition: number,
  signal: AbortSignal | undefined,
): Promise<EndRecord | undefined> {
  const locatorAt = endPosition - LENGTH.zip64Locator
  if (locatorAt < LENGTH.zip64End) return undefined
  const locator = await readExactly(source, locatorAt, LENGTH.zip64Locator, signal)
  if (locator.readUInt32LE(0) !== SIGNATURE.zip64Locator) return undefined
  for (const position of [readUInt64(locator, 8), locatorAt - LENGTH.zip64End]) {
    if (position + LENGTH.zip64End > locatorAt) continue
    const record = await readExactly(source, position, LENGTH.zip64End, signal)
    if (record.readUInt32LE(0) === SIGNATURE.zip64End) return parseZip64End(record, position)
  }
  return undefined
}

function parseZip64End(record: Buffer, position: number): EndRecord {
  return {
    disk: record.readUInt32LE(16),
    count: readUInt64(record, 32),
    countBits: 64,
    size: readUInt64(record, 40),
    offset: readUInt64(record, 48),
    position,
  }
}

/** Where the directory of an end record is, or undefined when there is no directory. */
async function placeOf(
  source: RandomAccessSource,
  end: EndRecord,
  signal: AbortSignal | undefined,
): Promise<Omit<DirectoryPlace, 'own'> | undefined> {
  const start = end.position - end.size
  if (end.disk !== 0) {
    throw new DriveError('unsupported', 'The zip is one of several parts.')
  }
  const { count, countBits } = end
  if (end.size === 0) {
    return count === 0 ? { start, end: start, base: 0, count, countBits } : undefined
  }
  // Normally the directory ends where the end record starts, and what stands before the archive
  // shows as a shift of all offsets. Some writers leave a gap there and tell true offsets.
  for (const base of new Set([start - end.offset, 0])) {
    const at = end.offset + base
    if (base < 0 || at + end.size > end.position || at + 4 > source.length) continue
    const signature = await readExactly(source, at, 4, signal)
    if (signature.readUInt32LE(0) === SIGNATURE.central) {
      return { start: at, end: at + end.size, base, count, countBits }
    }
  }
  return undefined
}
