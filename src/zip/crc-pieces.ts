import { crc32 } from 'node:zlib'

/** The polynomial of CRC-32, its lowest power in the highest bit. */
const POLYNOMIAL = 0xedb88320
const ONE = 0x80000000
const X_TO_8 = 0x00800000

interface SummedPiece {
  readonly start: number
  readonly end: number
  readonly crc: number
}

/** CRC-32 of content that is read in pieces, in any order and some of it twice. */
export class CrcPieces {
  /** Apart from each other, in order. */
  #pieces: readonly SummedPiece[] = []

  add(bytes: Uint8Array, position: number): void {
    const end = position + bytes.length
    let at = position
    const fresh: SummedPiece[] = []
    const take = (until: number): void => {
      if (until <= at) return
      const crc = crc32(bytes.subarray(at - position, until - position))
      fresh.push({ start: at, end: until, crc })
    }
    for (const piece of this.#pieces) {
      if (piece.end <= at) continue
      if (piece.start >= end) break
      take(piece.start)
      at = piece.end
    }
    take(end)
    if (fresh.length > 0) this.#pieces = joined([...this.#pieces, ...fresh])
  }

  /** CRC-32 of the first `length` bytes; undefined until all of them were read. */
  of(length: number): number | undefined {
    if (length === 0) return 0
    const [first] = this.#pieces
    return first?.start === 0 && first.end === length ? first.crc : undefined
  }
}

function joined(pieces: SummedPiece[]): readonly SummedPiece[] {
  pieces.sort((a, b) => a.start - b.start)
  const result: SummedPiece[] = []
  for (const piece of pieces) {
    const last = result.at(-1)
    if (last?.end !== piece.start) result.push(piece)
    else {
      const crc = crcOfBoth(last.crc, piece.crc, piece.end - piece.start)
      result[result.length - 1] = { start: last.start, end: piece.end, crc }
    }
  }
  return result
}

/** CRC-32 of two contents, one behind the other: the first moves up by the length of the second. */
function crcOfBoth(first: number, second: number, secondBytes: number): number {
  return (product(first, powerOfX8(secondBytes)) ^ second) >>> 0
}

/** x to the power of 8 times `count`, by squaring. */
function powerOfX8(count: number): number {
  let power = ONE
  let square = X_TO_8
  for (let rest = count; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) power = product(power, square)
    square = product(square, square)
  }
  return power
}

/** Product of two polynomials over the field of two, modulo that of CRC-32. */
function product(a: number, b: number): number {
  let result = 0
  let shifted = b
  for (let bit = 31; bit >= 0; bit -= 1) {
    if ((a >>> bit) & 1) result ^= shifted
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1
  }
  return result >>> 0
}
