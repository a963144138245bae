import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openArchive } from '../../../src/zip/archive.ts'
import type { RandomAccessSource } from '../../../src/zip/source.ts'
import { nodeAt } from '../../../src/zip/tree.ts'
import {
  centralRecord,
  dataDescriptor,
  endRecords,
  localHeader,
} from '../../../src/zip/zip-encode.ts'
import type { MemberHead } from '../../../src/zip/zip-encode.ts'
import { parseCentralRecord } from '../../../src/zip/zip-parse.ts'
import { toDosTime } from '../../../src/zip/zip-time.ts'
import { leafAt, LIMITS } from './support.ts'

const GIB = 1024 ** 3

const head = (changes: Partial<MemberHead> = {}): MemberHead => ({
  name: Buffer.from('name'),
  mode: 0o100644,
  mtimeMs: 1_700_000_000_000,
  method: 0,
  flags: 0x800,
  versionNeeded: 20,
  zip64: false,
  measure: { crc32: 7, compressedSize: 10, size: 20 },
  ...changes,
})

const parsed = (record: Buffer): ReturnType<typeof parseCentralRecord> =>
  parseCentralRecord(record, 0, { base: 0, position: 0 })

/** A source that is empty but for its end: a directory far behind a hole. */
function farSource(offset: number, tail: Buffer): RandomAccessSource {
  return {
    length: offset + tail.length,
    read: (buffer, position) => {
      buffer.fill(0)
      const from = position - offset
      const piece = tail.subarray(Math.max(0, from), Math.max(0, from + buffer.length))
      if (piece.length > 0) buffer.set(piece, Math.max(0, -from))
      return Promise.resolve(buffer.length)
    },
  }
}

describe('central records', () => {
  it('give back numbers of any size', () => {
    const number = fc.oneof(
      fc.nat(),
      fc.nat(2 ** 48),
      fc.constantFrom(0xfffffffe, 0xffffffff, 2 ** 32),
    )
    fc.assert(
      fc.property(number, number, number, (size, compressedSize, offset) => {
        const record = centralRecord(head({ measure: { crc32: 7, size, compressedSize } }), offset)
        expect(parsed(record).member).toMatchObject({ size, compressedSize, offset, crc32: 7 })
      }),
    )
  })

  it('give back times, to what a number of milliseconds tells', () => {
    const time = fc.oneof(
      fc.integer({ min: -(2 ** 41), max: 2 ** 43 }),
      fc.double({ min: 0, max: 4e12, noNaN: true, noDefaultInfinity: true }),
    )
    fc.assert(
      fc.property(time, (mtimeMs) => {
        const once = parsed(centralRecord(head({ mtimeMs }), 0)).mtimeMs
        expect(Math.abs(once - mtimeMs)).toBeLessThan(0.001)
        expect(parsed(centralRecord(head({ mtimeMs: once }), 0)).mtimeMs).toBe(once)
      }),
    )
  })

  it('keep the old times of DOS within what the format can hold', () => {
    expect(toDosTime(0)).toBe(toDosTime(Date.UTC(1980, 0, 1)))
    expect(toDosTime(1e14)).toBe(toDosTime(Date.UTC(2107, 11, 31, 23, 59, 58)))
  })
})

describe('zip64', () => {
  it('is used for archives over 4 GiB', async () => {
    const offset = 5 * GIB
    const measure = { crc32: 1, compressedSize: 4 * GIB, size: 6 * GIB }
    const record = centralRecord(head({ measure, zip64: true }), 4.5 * GIB)
    const end = endRecords({ count: 1, size: record.length, offset })
    const archive = await openArchive(farSource(offset, Buffer.concat([record, end])), {
      limits: LIMITS,
    })
    expect(leafAt(archive, 'name').member).toMatchObject({
      offset: 4.5 * GIB,
      size: 6 * GIB,
      compressedSize: 4 * GIB,
    })
    expect(nodeAt(archive.root, 'name')?.mtimeMs).toBe(1_700_000_000_000)
  })

  it('finds its end record before the locator when that tells another place', async () => {
    const record = centralRecord(head(), 4.5 * GIB)
    const end = endRecords({ count: 1, size: record.length, offset: 5 * GIB })
    const locator = end.indexOf(Buffer.from('PK\x06\x07'))
    for (const place of [0n, 1n << 40n, (1n << 64n) - 1n]) {
      end.writeBigUInt64LE(place, locator + 8)
      const source = farSource(5 * GIB, Buffer.concat([record, end]))
      const archive = await openArchive(source, { limits: LIMITS })
      expect(leafAt(archive, 'name').member.offset).toBe(4.5 * GIB)
    }
  })

  it('makes room in the local header and the descriptor for sizes that come later', () => {
    const late = head({ zip64: true, flags: 0x808 })
    const local = localHeader(late, 1)
    expect([local.readUInt32LE(18), local.readUInt32LE(22)]).toEqual([0xffffffff, 0xffffffff])
    expect(local.readUInt16LE(34)).toBe(1)
    expect(local.readUInt16LE(4)).toBe(45)
    expect(dataDescriptor(late)).toHaveLength(24)
    expect(dataDescriptor(head())).toHaveLength(16)
  })

  it('says so at the place where a damaged end record is', async () => {
    const end = endRecords({ count: 0xffff, size: 0xffffffff, offset: 4 * GIB })
    const promise = openArchive(farSource(4 * GIB, end), { limits: LIMITS })
    await expect(promise).rejects.toMatchObject({ code: 'corrupt' })
  })
})
