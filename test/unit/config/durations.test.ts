import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseDuration } from '../../../src/config/durations.ts'
import { isDriveError } from '../../../src/domain/errors.ts'

test.each([
  ['0', 0],
  ['500ms', 500],
  ['5s', 5000],
  ['1.5 s', 1500],
  ['1m', 60_000],
  ['2H', 7_200_000],
])('reads %j as %d ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms)
})

test.each(['', '5', 's', '-1s', '5 minutes', '1constructor', '1000h', '1e3s'])(
  'refuses %j and says how a duration is written',
  (text) => {
    expect(() => parseDuration(text)).toThrow(expect.objectContaining({ code: 'usage' }))
  },
)

test('any text gives a time that a timer takes, or a usage error', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[\d.]{1,15} ?[msh]{1,2}$/)), (text) => {
      try {
        const ms = parseDuration(text)
        return Number.isInteger(ms) && ms >= 0 && ms < 2 ** 31
      } catch (error) {
        return isDriveError(error, 'usage')
      }
    }),
  )
})
