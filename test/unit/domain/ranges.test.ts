import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RangeSet } from '../../../src/domain/ranges.ts'

const SPACE = 40

const added = fc.record({ start: fc.nat(SPACE - 1), length: fc.nat(SPACE / 4) })

/** Adds the same ranges to a RangeSet and to a plain bitmap. */
function build(ranges: readonly { start: number; length: number }[]) {
  const set = new RangeSet()
  const bitmap = new Array<boolean>(2 * SPACE).fill(false)
  for (const { start, length } of ranges) {
    set.add(start, start + length)
    bitmap.fill(true, start, start + length)
  }
  return { set, bitmap }
}

describe('RangeSet', () => {
  it('answers as a plain bitmap does, after any additions', () => {
    fc.assert(
      fc.property(fc.array(added, { maxLength: 12 }), (given) => {
        const { set, bitmap } = build(given)
        expect(set.covered).toBe(bitmap.filter(Boolean).length)
        expect(set.end).toBe(bitmap.lastIndexOf(true) + 1)
        for (let from = 0; from < bitmap.length; from += 1) {
          const gap = bitmap.indexOf(false, from)
          const present = bitmap.indexOf(true, from)
          expect(set.firstPresent(from)).toBe(present === -1 ? Infinity : present)
          if (gap !== -1) expect(set.firstGap(from)).toBe(gap)
          for (let end = from; end < bitmap.length; end += 7) {
            expect(set.contains(from, end)).toBe(bitmap.slice(from, end).every(Boolean))
          }
        }
      }),
      { numRuns: 300 },
    )
  })

  it('keeps its ranges sorted, apart and not empty', () => {
    fc.assert(
      fc.property(fc.array(added, { maxLength: 12 }), (given) => {
        const { set } = build(given)
        const ranges = set.toJSON()
        let previousEnd = -1
        for (const [start, end] of ranges) {
          expect(start).toBeGreaterThan(previousEnd)
          expect(end).toBeGreaterThan(start)
          previousEnd = end
        }
      }),
    )
  })

  it('comes back from JSON as it was', () => {
    fc.assert(
      fc.property(fc.array(added, { maxLength: 12 }), (given) => {
        const { set } = build(given)
        const copy = RangeSet.parse(JSON.parse(JSON.stringify(set)))
        expect(copy?.toJSON()).toEqual(set.toJSON())
        expect(copy?.covered).toBe(set.covered)
      }),
    )
  })

  it.each([
    ['no list', {}],
    ['a range without an end', [[1]]],
    ['an empty range', [[3, 3]]],
    ['a range backwards', [[5, 2]]],
    ['a negative start', [[-1, 2]]],
    ['a fraction', [[0, 1.5]]],
    ['text', [['0', '9']]],
    [
      'ranges that overlap',
      [
        [0, 5],
        [4, 9],
      ],
    ],
    [
      'ranges out of order',
      [
        [5, 6],
        [0, 2],
      ],
    ],
  ])('does not parse %s', (_what, value) => {
    expect(RangeSet.parse(value)).toBeUndefined()
  })

  it('refuses a range that cannot be', () => {
    const set = new RangeSet()
    for (const [start, end] of [
      [-1, 3],
      [4, 2],
      [0, NaN],
      [0.5, 2],
    ] as const) {
      expect(() => {
        set.add(start, end)
      }).toThrow(RangeError)
    }
  })

  it('forgets everything on clear', () => {
    const set = new RangeSet()
    set.add(2, 9)
    set.clear()
    expect(set.toJSON()).toEqual([])
    expect(set.covered).toBe(0)
  })
})
