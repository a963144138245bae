import type { KeptAttributes } from '../domain/attributes.ts'
import {
  EXTRA,
  FLAG,
  HOST,
  LENGTH,
  MAX_16,
  MAX_32,
  NO_OWNER,
  OWN_COMMENT,
  OWN_MARK,
  SIGNATURE,
  S_IFDIR,
  S_IFMT,
} from './zip-format.ts'
import { toDosTime, toNtfsTime } from './zip-time.ts'

/** Numbers that are known once a member's data was written. */
export interface Measure {
  readonly crc32: number
  readonly compressedSize: number
  readonly size: number
}

/** What the headers of a member tell; `mode` with the file type; `measure` is replaced when a descriptor follows the data. */
export interface MemberHead extends KeptAttributes {
  readonly name: Buffer
  readonly method: number
  readonly flags: number
  readonly versionNeeded: number
  /** Only where the data depends on it (encryption); else it is made of `mtimeMs`. */
  readonly dosTime?: number
  /** Fields that belong to the data and are copied with it. */
  readonly extra?: Buffer
  /** True when the sizes before the data must have room for 64 bits. */
  readonly zip64: boolean
  readonly measure: Measure
}

const VERSION_ZIP64 = 45
/** Unix, APPNOTE version 6.3. */
const MADE_BY = (HOST.unix << 8) | 63
const DOS_DIRECTORY = 0x10

/**
 * Local header, name and extra fields: all that stands before a member's data. The one that begins an
 * archive, at `offset` 0, has the mark of this program.
 */
export function localHeader(head: MemberHead, offset: number): Buffer {
  const isLate = (head.flags & FLAG.descriptor) !== 0
  const { crc32, compressedSize, size } = isLate
    ? { crc32: 0, compressedSize: 0, size: 0 }
    : head.measure
  const extra = Buffer.concat([
    head.zip64 ? zip64Field([size, compressedSize]) : Buffer.alloc(0),
    timestampField(head.mtimeMs),
    ownerField(head),
    head.extra ?? Buffer.alloc(0),
    offset === 0 ? field(EXTRA.own, OWN_MARK) : Buffer.alloc(0),
  ])
  const header = Buffer.alloc(LENGTH.local)
  header.writeUInt32LE(SIGNATURE.local, 0)
  writeCommon(header, 4, head)
  header.writeUInt32LE(crc32, 14)
  header.writeUInt32LE(head.zip64 ? MAX_32 : compressedSize, 18)
  header.writeUInt32LE(head.zip64 ? MAX_32 : size, 22)
  header.writeUInt16LE(head.name.length, 26)
  header.writeUInt16LE(extra.length, 28)
  return Buffer.concat([header, head.name, extra])
}

/** What follows a member's data when its flags say so. */
export function dataDescriptor(head: MemberHead): Buffer {
  const { crc32, compressedSize, size } = head.measure
  const start = Buffer.alloc(8)
  start.writeUInt32LE(SIGNATURE.descriptor, 0)
  start.writeUInt32LE(crc32, 4)
  if (head.zip64) return Buffer.concat([start, uint64(compressedSize), uint64(size)])
  const sizes = Buffer.alloc(8)
  sizes.writeUInt32LE(compressedSize, 0)
  sizes.writeUInt32LE(size, 4)
  return Buffer.concat([start, sizes])
}

/** The member's record in the central directory; `offset` is the position of its local header. */
export function centralRecord(head: MemberHead, offset: number): Buffer {
  const { crc32, compressedSize, size } = head.measure
  const long = [size, compressedSize, offset].filter((number) => number >= MAX_32)
  const extra = Buffer.concat([
    long.length > 0 ? zip64Field(long) : Buffer.alloc(0),
    timestampField(head.mtimeMs),
    ntfsField(head),
    ownerField(head),
    changedField(head),
    head.extra ?? Buffer.alloc(0),
  ])
  const isDirectory = (head.mode & S_IFMT) === S_IFDIR
  const record = Buffer.alloc(LENGTH.central)
  record.writeUInt32LE(SIGNATURE.central, 0)
  record.writeUInt16LE(MADE_BY, 4)
  writeCommon(record, 6, head, long.length > 0)
  record.writeUInt32LE(crc32, 16)
  record.writeUInt32LE(Math.min(compressedSize, MAX_32), 20)
  record.writeUInt32LE(Math.min(size, MAX_32), 24)
  record.writeUInt16LE(head.name.length, 28)
  record.writeUInt16LE(extra.length, 30)
  record.writeUInt32LE(((head.mode << 16) | (isDirectory ? DOS_DIRECTORY : 0)) >>> 0, 38)
  record.writeUInt32LE(Math.min(offset, MAX_32), 42)
  return Buffer.concat([record, head.name, extra])
}

/** Everything after the central directory. Positions and sizes are in bytes. */
export function endRecords(directory: {
  readonly count: number
  readonly size: number
  readonly offset: number
}): Buffer {
  const { count, size, offset } = directory
  const comment = Buffer.from(OWN_COMMENT, 'latin1')
  const end = Buffer.alloc(LENGTH.end)
  end.writeUInt32LE(SIGNATURE.end, 0)
  end.writeUInt16LE(Math.min(count, MAX_16), 8)
  end.writeUInt16LE(Math.min(count, MAX_16), 10)
  end.writeUInt32LE(Math.min(size, MAX_32), 12)
  end.writeUInt32LE(Math.min(offset, MAX_32), 16)
  end.writeUInt16LE(comment.length, 20)
  const isLong = count >= MAX_16 || size >= MAX_32 || offset >= MAX_32
  return Buffer.concat([...(isLong ? [zip64End(directory)] : []), end, comment])
}

/** The zip64 end record and its locator. */
function zip64End(directory: { count: number; size: number; offset: number }): Buffer {
  const { count, size, offset } = directory
  const record = Buffer.alloc(LENGTH.zip64End)
  record.writeUInt32LE(SIGNATURE.zip64End, 0)
  record.writeBigUInt64LE(BigInt(LENGTH.zip64End - 12), 4)
  record.writeUInt16LE(MADE_BY, 12)
  record.writeUInt16LE(VERSION_ZIP64, 14)
  uint64(count).copy(record, 24)
  uint64(count).copy(record, 32)
  uint64(size).copy(record, 40)
  uint64(offset).copy(record, 48)
  const locator = Buffer.alloc(LENGTH.zip64Locator)
  locator.writeUInt32LE(SIGNATURE.zip64Locator, 0)
  uint64(offset + size).copy(locator, 8)
  locator.writeUInt32LE(1, 16)
  return Buffer.concat([record, locator])
}

/** The fields that local and central records share, in the same order: version to date. */
function writeCommon(target: Buffer, at: number, head: MemberHead, isLong = head.zip64): void {
  const version = isLong ? Math.max(head.versionNeeded, VERSION_ZIP64) : head.versionNeeded
  target.writeUInt16LE(version, at)
  target.writeUInt16LE(head.flags, at + 2)
  target.writeUInt16LE(head.method, at + 4)
  target.writeUInt32LE(head.dosTime ?? toDosTime(head.mtimeMs), at + 6)
}

function zip64Field(numbers: readonly number[]): Buffer {
  return field(EXTRA.zip64, Buffer.concat(numbers.map(uint64)))
}

/** Info-ZIP's time in whole seconds UTC; left out when 32 bits cannot hold it. */
function timestampField(mtimeMs: number): Buffer {
  const seconds = Math.floor(mtimeMs / 1000)
  if (seconds !== (seconds | 0)) return Buffer.alloc(0)
  const body = Buffer.alloc(5)
  body[0] = 1
  body.writeInt32LE(seconds, 1)
  return field(EXTRA.timestamp, body)
}

/** NTFS's times in 100 ns, for times that whole seconds of 32 bits do not tell, and for an atime of its own. */
function ntfsField({ mtimeMs, atimeMs = mtimeMs }: KeptAttributes): Buffer {
  const seconds = mtimeMs / 1000
  if (seconds === (seconds | 0) && atimeMs === mtimeMs) return Buffer.alloc(0)
  const modified = toNtfsTime(mtimeMs)
  const body = Buffer.alloc(32)
  body.writeUInt16LE(1, 4)
  body.writeUInt16LE(24, 6)
  body.writeBigUInt64LE(modified, 8)
  body.writeBigUInt64LE(toNtfsTime(atimeMs), 16)
  body.writeBigUInt64LE(modified, 24)
  return field(EXTRA.ntfs, body)
}

/** Info-ZIP's owner. Half of one has the number by which chown leaves the other half as it is. */
function ownerField({ uid = NO_OWNER, gid = NO_OWNER }: KeptAttributes): Buffer {
  if (uid === NO_OWNER && gid === NO_OWNER) return Buffer.alloc(0)
  const body = Buffer.from([1, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0])
  body.writeUInt32LE(uid, 2)
  body.writeUInt32LE(gid, 7)
  return field(EXTRA.owner, body)
}

/** When anything changed, in microseconds: our own, as no other field has it. */
function changedField({ mtimeMs, ctimeMs = mtimeMs }: KeptAttributes): Buffer {
  if (ctimeMs === mtimeMs) return Buffer.alloc(0)
  const body = Buffer.alloc(8)
  body.writeBigInt64LE(BigInt(Math.round(ctimeMs * 1000)))
  return field(EXTRA.own, body)
}

function field(tag: number, body: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16LE(tag, 0)
  head.writeUInt16LE(body.length, 2)
  return Buffer.concat([head, body])
}

function uint64(number: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(number))
  return bytes
}
