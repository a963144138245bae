import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ArrayPieces, parsePiece } from '../../../src/domain/array-pieces.ts'

interface Split {
  readonly pieces: readonly Buffer[]
  readonly around: string
}

function split(text: string | Buffer, chunkBytes = 64 * 1024): Split {
  const bytes = Buffer.from(text)
  const splitter = new ArrayPieces()
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    pieces.push(...splitter.push(bytes.subarray(at, at + chunkBytes)))
  }
  return { pieces, around: splitter.end() }
}

const elementsOf = ({ pieces }: Split): readonly unknown[] => pieces.flatMap(parsePiece)

/** An element of some size that is like no other. */
const element = (number: number): unknown => {
  const id = createHash('sha256').update(String(number)).digest('hex')
  return { id, name: `"${number}", [not] {brackets}\\`, list: [number, {}], text: '‛ü🙂'.repeat(9) }
}
const many = (count: number): unknown[] => Array.from({ length: count }, (_, at) => element(at))

describe('the elements of an array', () => {
  it('are those of JSON.parse, wherever the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 6 }),
        fc.integer({ min: 1, max: 40 }),
        fc.constantFrom(undefined, 1, '\t'),
        (values, chunkBytes, indent) => {
          const found = split(JSON.stringify(values, undefined, indent), chunkBytes)
          expect(elementsOf(found)).toEqual(JSON.parse(JSON.stringify(values)))
          expect(JSON.parse(found.around)).toEqual([])
        },
      ),
    )
  })

  it('come in pieces of bounded size', () => {
    const values = [...many(2_000), ...Array.from({ length: 5_000 }, () => 0), ...many(1_000)]
    const found = split(JSON.stringify(values))
    expect(elementsOf(found)).toEqual(values)
    expect(found.pieces.length).toBeGreaterThan(20)
    for (const piece of found.pieces) {
      expect(piece.length).toBeLessThan(300_000)
      expect(parsePiece(piece).length).toBeLessThanOrEqual(1_024)
    }
  })

  it('are in the same pieces when some others are put in, changed or taken out', () => {
    const before = many(8_000)
    const after = [element(-1), ...before.slice(0, 4_000), element(-2), ...before.slice(4_001)]
    const known = new Set(split(JSON.stringify(before)).pieces.map((piece) => piece.toString()))
    const pieces = split(JSON.stringify(after)).pieces.map((piece) => piece.toString())
    expect(pieces.length).toBeGreaterThan(40)
    expect(pieces.filter((piece) => !known.has(piece)).length).toBeLessThan(8)
  })

  it('are null when they are endless, and the others are as they were', () => {
    const huge = 'x'.repeat(3 * 1024 * 1024)
    for (const chunkBytes of [1_000, 64 * 1024, 16 * 1024 * 1024]) {
      const values = [1, huge, [2], { huge }, 3]
      expect(elementsOf(split(JSON.stringify(values), chunkBytes))).toEqual([1, null, [2], null, 3])
      expect(elementsOf(split(JSON.stringify([huge]), chunkBytes))).toEqual([null])
    }
  })

  it('may be nested as deep as they like', () => {
    const nested = '['.repeat(30_000) + ']'.repeat(30_000)
    expect(elementsOf(split(`[1,${nested},2]`))).toHaveLength(3)
  })
})

it('tells what is around the array', () => {
  const text = JSON.stringify({ version: 1, list: [1, [2], 'three]'], more: { at: 7 } })
  for (const chunkBytes of [1, 3, 1_000]) {
    const found = split(text, chunkBytes)
    expect(elementsOf(found)).toEqual([1, [2], 'three]'])
    expect(JSON.parse(found.around)).toEqual({ version: 1, list: [], more: { at: 7 } })
  }
})

describe('a text that is no JSON', () => {
  it.each([
    '',
    ' ',
    '[',
    '[1',
    '[1,',
    '["a]',
    '{}',
    '[1}',
    '[[1}]',
    '[1,]',
    '[,1]',
    '[,]',
    '[1,,2]',
  ])('is never taken for one: %s', (text) => {
    for (const filler of ['', '0,'.repeat(20_000)]) {
      const whole = text.replace('[', `[${filler}`)
      expect(() => {
        const found = split(whole, 7)
        elementsOf(found)
        JSON.parse(found.around)
      }).toThrow(SyntaxError)
    }
  })

  it('is refused before it fills the memory', () => {
    expect(() => split('x'.repeat(100_000))).toThrow(SyntaxError)
    expect(() => split(`[]${' '.repeat(100_000)}`)).toThrow(SyntaxError)
  })
})
