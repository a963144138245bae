import { crc32 } from 'node:zlib'
import type { KeptAttributes } from '../domain/attributes.ts'
import { decodeCp437 } from './cp437.ts'
import { EXTRA, FLAG, HOST, LENGTH, MAX_32, NO_OWNER, SIGNATURE } from './zip-format.ts'
import type { ZipMember } from './zip-format.ts'
import { fromDosTime, fromNtfsTime } from './zip-time.ts'

/** One record of the central directory. */
export interface CentralRecord {
  readonly member: ZipMember
  /** Path as the archive has it: `/` between names, and at the end of a directory's. */
  readonly path: string
  /** Upper byte of "version made by". */
  readonly host: number
  readonly externalAttributes: number
  readonly mtimeMs: number
  /** What only folders' zips of this program are believed. */
  readonly own: Pick<KeptAttributes, 'atimeMs' | 'ctimeMs' | 'uid' | 'gid'>
}

interface ExtraFields {
  zip64?: Buffer
  unicodePath?: Buffer
  ntfsMs?: number
  accessMs?: number
  changedMs?: number
  uid?: number
  gid?: number
  timestampMs?: number
}

/** Bytes of the record at `at`, or undefined when `bytes` ends before its variable parts do. */
export function centralRecordLength(bytes: Buffer, at: number): number | undefined {
  if (at + LENGTH.central > bytes.length) return undefined
  const length =
    LENGTH.central +
    bytes.readUInt16LE(at + 28) +
    bytes.readUInt16LE(at + 30) +
    bytes.readUInt16LE(at + 32)
  return at + length > bytes.length ? undefined : length
}

/** True when a central record starts at `at`. */
export function isCentralRecord(bytes: Buffer, at: number): boolean {
  return at + 4 <= bytes.length && bytes.readUInt32LE(at) === SIGNATURE.central
}

/**
 * Reads the record at `at`, whose length was checked. `base` is added to the offsets that the archive
 * tells (bytes before a self-extracting archive), `position` is where `bytes` starts in the source.
 */
export function parseCentralRecord(
  bytes: Buffer,
  at: number,
  place: { readonly base: number; readonly position: number },
): CentralRecord {
  const nameEnd = at + LENGTH.central + bytes.readUInt16LE(at + 28)
  const name = bytes.subarray(at + LENGTH.central, nameEnd)
  const fields = parseExtra(bytes, nameEnd, nameEnd + bytes.readUInt16LE(at + 30))
  const host = bytes.readUInt16LE(at + 4) >>> 8
  const flags = bytes.readUInt16LE(at + 8)
  const dosTime = bytes.readUInt32LE(at + 12)
  const next64 = zip64Reader(fields.zip64)
  // The zip64 field holds only the numbers that did not fit, in this order.
  const size = next64(bytes.readUInt32LE(at + 24))
  const compressedSize = next64(bytes.readUInt32LE(at + 20))
  const offset = next64(bytes.readUInt32LE(at + 42))
  return {
    member: {
      method: bytes.readUInt16LE(at + 10),
      flags,
      versionNeeded: bytes.readUInt16LE(at + 6),
      dosTime,
      crc32: bytes.readUInt32LE(at + 16),
      compressedSize,
      size,
      offset: Math.min(offset + place.base, Number.MAX_SAFE_INTEGER),
      recordPosition: place.position + at,
    },
    path: decodePath(name, flags, host, fields.unicodePath),
    host,
    externalAttributes: bytes.readUInt32LE(at + 38),
    mtimeMs: fields.ntfsMs ?? fields.timestampMs ?? fromDosTime(dosTime),
    own: {
      atimeMs: fields.accessMs,
      ctimeMs: fields.changedMs,
      uid: fields.uid,
      gid: fields.gid,
    },
  }
}

/** An unsigned 64-bit number; what no number can hold becomes the largest safe integer. */
export function readUInt64(bytes: Buffer, at: number): number {
  return Math.min(Number(bytes.readBigUInt64LE(at)), Number.MAX_SAFE_INTEGER)
}

function zip64Reader(field: Buffer | undefined): (short: number) => number {
  let at = 0
  return (short) => {
    if (short !== MAX_32 || field === undefined || at + 8 > field.length) return short
    at += 8
    return readUInt64(field, at - 8)
  }
}

/** One extra field: its tag, its body, and both with their head. */
interface ExtraField {
  readonly tag: number
  readonly body: Buffer
  readonly whole: Buffer
}

/** The extra fields of a record; what stands after the last whole one is left out. */
export function extraFields(bytes: Buffer): ExtraField[] {
  const fields: ExtraField[] = []
  for (let at = 0; at + 4 <= bytes.length;) {
    const end = at + 4 + bytes.readUInt16LE(at + 2)
    if (end > bytes.length) break
    const whole = bytes.subarray(at, end)
    fields.push({ tag: bytes.readUInt16LE(at), body: whole.subarray(4), whole })
    at = end
  }
  return fields
}

/** The fields between two offsets that say something of a member. Makes nothing of those that most have. */
function parseExtra(bytes: Buffer, start: number, end: number): ExtraFields {
  const known: ExtraFields = {}
  for (let at = start; at + 4 <= end;) {
    const next = at + 4 + bytes.readUInt16LE(at + 2)
    if (next > end) break
    takeField(known, bytes.readUInt16LE(at), { bytes, at: at + 4, end: next })
    at = next
  }
  return known
}

/** Where a field's body is. */
interface Body {
  readonly bytes: Buffer
  readonly at: number
  readonly end: number
}

function takeField(fields: ExtraFields, tag: number, { bytes, at, end }: Body): void {
  const length = end - at
  if (tag === EXTRA.zip64) fields.zip64 = bytes.subarray(at, end)
  else if (tag === EXTRA.unicodePath) fields.unicodePath = bytes.subarray(at, end)
  else if (tag === EXTRA.timestamp && length >= 5 && ((bytes[at] ?? 0) & 1) === 1)
    fields.timestampMs = bytes.readInt32LE(at + 1) * 1000
  else if (tag === EXTRA.ntfs) takeNtfsTimes(fields, bytes.subarray(at, end))
  else if (tag === EXTRA.own && length === 8)
    fields.changedMs = Number(bytes.readBigInt64LE(at)) / 1000
  else if (tag === EXTRA.owner) takeOwner(fields, bytes.subarray(at, end))
}

/** Attribute 1 of 24 bytes: modification, access and creation time. Zero means unknown. */
function takeNtfsTimes(fields: ExtraFields, body: Buffer): void {
  if (body.length < 16 || body.readUInt32LE(4) !== 0x0018_0001) return
  const modified = body.readBigUInt64LE(8)
  if (modified !== 0n) fields.ntfsMs = fromNtfsTime(modified)
  const accessed = body.length >= 24 ? body.readBigUInt64LE(16) : 0n
  if (accessed !== 0n && accessed !== modified) fields.accessMs = fromNtfsTime(accessed)
}

/** Version 1, and each number with its length before it; ours have four bytes. */
function takeOwner(fields: ExtraFields, body: Buffer): void {
  if (body.length !== 11 || body[0] !== 1 || body[1] !== 4 || body[6] !== 4) return
  const uid = body.readUInt32LE(2)
  const gid = body.readUInt32LE(7)
  if (uid !== NO_OWNER) fields.uid = uid
  if (gid !== NO_OWNER) fields.gid = gid
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The bytes as UTF-8, or undefined when they are not. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}

function decodePath(
  name: Buffer,
  flags: number,
  host: number,
  unicodePath: Buffer | undefined,
): string {
  const told = unicodeFieldOf(name, unicodePath)
  if (told !== undefined) return backslashesOf(told, host)
  if (isAscii(name)) return backslashesOf(name.toString('latin1'), host)
  // Unix and macOS programs write UTF-8 without saying so; all others mean code page 437.
  const mayBeUtf8 = (flags & FLAG.utf8) !== 0 || host === HOST.unix || host === HOST.macOs
  return backslashesOf((mayBeUtf8 ? decodeUtf8(name) : undefined) ?? decodeCp437(name), host)
}

/** The Info-ZIP Unicode path field counts only while its checksum is that of the name beside it. */
function unicodeFieldOf(name: Buffer, field: Buffer | undefined): string | undefined {
  if (field === undefined || field.length < 5 || field[0] !== 1) return undefined
  return field.readUInt32LE(1) === crc32(name) ? decodeUtf8(field.subarray(5)) : undefined
}

/** Some DOS and Windows programs part names by backslashes only; elsewhere it is a letter like others. */
function backslashesOf(path: string, host: number): string {
  return host === HOST.fat && !path.includes('/') ? path.replaceAll('\\', '/') : path
}

function isAscii(bytes: Uint8Array): boolean {
  for (const byte of bytes) if (byte >= 0x80) return false
  return true
}
