import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { answerRange } from '../../../src/local-service/byte-range.ts'

describe('answerRange', () => {
  it.each([
    ['bytes=0-0', { kind: 'part', start: 0, end: 1 }],
    ['bytes=3-', { kind: 'part', start: 3, end: 10 }],
    ['bytes=3-99', { kind: 'part', start: 3, end: 10 }],
    ['bytes=-4', { kind: 'part', start: 6, end: 10 }],
    ['bytes=-99', { kind: 'part', start: 0, end: 10 }],
    ['bytes=10-', { kind: 'unsatisfiable' }],
    ['bytes=-0', { kind: 'unsatisfiable' }],
    ['bytes=5-3', { kind: 'whole' }],
    ['bytes=0-1,3-4', { kind: 'whole' }],
    ['bytes=-', { kind: 'whole' }],
    ['lines=1-2', { kind: 'whole' }],
    ['nonsense', { kind: 'whole' }],
    [undefined, { kind: 'whole' }],
  ])('answers %s of ten bytes', (header, expected) => {
    expect(answerRange(header, 10)).toEqual(expected)
  })

  it('has no range of an empty content', () => {
    expect(answerRange('bytes=0-', 0)).toEqual({ kind: 'unsatisfiable' })
    expect(answerRange('bytes=-5', 0)).toEqual({ kind: 'whole' })
  })

  it('never leaves the content, whatever the header', () => {
    const header = fc.oneof(fc.string(), fc.stringMatching(/^bytes=\d{0,20}-\d{0,20}$/))
    fc.assert(
      fc.property(header, fc.nat(1000), (text, length) => {
        const answer = answerRange(text, length)
        if (answer.kind !== 'part') return true
        return 0 <= answer.start && answer.start < answer.end && answer.end <= length
      }),
    )
  })
})
