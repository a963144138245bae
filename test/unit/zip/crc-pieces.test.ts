import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CrcPieces } from '../../../src/zip/crc-pieces.ts'

describe('the CRC of content that is read in pieces', () => {
  it('is that of the whole, in whatever order and however often its bytes come', () => {
    const pieces = fc.array(fc.tuple(fc.nat(300), fc.integer({ min: 1, max: 120 })))
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 300 }), pieces, (bytes, reads) => {
        const crc = new CrcPieces()
        const missing = new Set(bytes.keys())
        for (const [start, length] of reads) {
          expect(crc.of(bytes.length)).toBe(missing.size === 0 ? crc32(bytes) : undefined)
          if (start >= bytes.length) continue
          const piece = bytes.subarray(start, start + length)
          crc.add(piece, start)
          for (const at of piece.keys()) missing.delete(start + at)
        }
        crc.add(bytes, 0)
        expect(crc.of(bytes.length)).toBe(crc32(bytes))
      }),
    )
  })

  it('is that of nothing before any byte', () => {
    const crc = new CrcPieces()
    expect(crc.of(0)).toBe(crc32(''))
    crc.add(Buffer.from('b'), 1)
    expect(crc.of(2)).toBeUndefined()
  })

  it('puts pieces of megabytes together', () => {
    const bytes = Buffer.alloc(5_000_000, 'some content')
    const crc = new CrcPieces()
    for (const at of [3_000_000, 0, 1_000_000, 4_000_000, 2_000_000]) {
      crc.add(bytes.subarray(at, at + 1_000_000), at)
    }
    expect(crc.of(bytes.length)).toBe(crc32(bytes))
  })
})
