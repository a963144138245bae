import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatSize, parseSize } from '../../../src/config/sizes.ts'
import { isDriveError } from '../../../src/domain/errors.ts'

test.each([
  ['0', 0],
  ['1234', 1234],
  ['123B', 123],
  ['10GB', 10e9],
  ['10 gb', 10e9],
  ['1.5G', 1.5e9],
  ['512MiB', 512 * 1024 * 1024],
  ['2tib', 2 * 2 ** 40],
  [' 7kB ', 7000],
])('reads %j as %d bytes', (text, bytes) => {
  expect(parseSize(text)).toBe(bytes)
})

test.each([
  '',
  'GB',
  '-1',
  '+1',
  '1e9',
  '1,5G',
  '10 G B',
  '12q',
  '1constructor',
  '9999999TB',
  'NaN',
])('refuses %j and says how a size is written', (text) => {
  expect(() => parseSize(text)).toThrow(expect.objectContaining({ code: 'usage' }))
  expect(() => parseSize(text)).toThrow(JSON.stringify(text))
})

test.each(['5', ' 999 ', '1.5'])('asks for the unit of %j', (text) => {
  expect(() => parseSize(text)).toThrow(
    expect.objectContaining({
      code: 'usage',
      message: expect.stringContaining('has no unit') as string,
      facts: { hint: expect.stringContaining(`${text.trim()}GB`) as string },
    }),
  )
})

test('any whole number with any unit is that many units', () => {
  const units = { B: 1, kB: 1e3, MiB: 2 ** 20, GB: 1e9, GiB: 2 ** 30 }
  fc.assert(
    fc.property(
      fc.nat(100_000),
      fc.constantFrom(...Object.entries(units)),
      (count, [unit, factor]) => parseSize(`${count}${unit}`) === count * factor,
    ),
  )
})

test('any text gives a safe number of bytes or a usage error', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.stringMatching(/^[\d.]{1,20} ?[kMGTiB]{0,3}$/)),
      (text) => {
        try {
          const bytes = parseSize(text)
          return Number.isSafeInteger(bytes) && bytes >= 0
        } catch (error) {
          return isDriveError(error, 'usage')
        }
      },
    ),
  )
})

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.0 kB'],
  [9949, '9.9 kB'],
  [9950, '10 kB'],
  [999_499, '999 kB'],
  [999_500, '1.0 MB'],
  [1e9, '1.0 GB'],
  [123e12, '123 TB'],
])('writes %d bytes as %j', (bytes, text) => {
  expect(formatSize(bytes)).toBe(text)
})

test('a written size is never longer than seven characters and leads back to within 5 %', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999e12 }), (bytes) => {
      const text = formatSize(bytes)
      return text.length <= 7 && Math.abs(parseSize(text) - bytes) <= bytes * 0.051
    }),
  )
})
