import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toPrintable, toPrintableJson } from '../../../src/cli/printable.ts'

const UNSAFE = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u

test('ordinary names of any language stay as they are', () => {
  for (const name of ['report.pdf', 'ünï 名前 🙂', "it's (1)", 'tab-less']) {
    expect(toPrintable(name)).toBe(name)
  }
})

test('nothing that commands or fools a terminal is left of any text', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !UNSAFE.test(toPrintable(text))))
})

test('JSON stays the same value and holds no control character but line ends', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const json = toPrintableJson({ text })
      expect(JSON.parse(json)).toEqual({ text })
      return !UNSAFE.test(json.replaceAll('\n', ''))
    }),
  )
})
