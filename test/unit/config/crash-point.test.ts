import { expect, it } from 'vitest'
import { readCrashPoint } from '../../../src/config/crash-point.ts'

it('nobody is killed unless the variable asks for it', () => {
  expect(readCrashPoint({})).toBeUndefined()
  expect(readCrashPoint({ BAGFS_CRASH_AT: ' ' })).toBeUndefined()
})

it.each([
  ['upload.begin', { step: 'upload.begin', passing: 1 }],
  ['update.written:12', { step: 'update.written', passing: 12 }],
])('%s names a step and its passing', (text, point) => {
  expect(readCrashPoint({ BAGFS_CRASH_AT: text })).toEqual(point)
})

it.each(['upload', 'upload.begin:0', 'upload.begin:', 'upload.begin:1x', '../x.y'])(
  '%s is refused',
  (text) => {
    expect(() => readCrashPoint({ BAGFS_CRASH_AT: text })).toThrow(
      expect.objectContaining({ code: 'usage' }),
    )
  },
)
