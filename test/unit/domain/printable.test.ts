import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toPrintable, toPrintableJson } from '../../../src/domain/printable.ts'

const UNSAFE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u

test('ordinary names of any language stay as they are', () => {
  for (const name of ['report.pdf', 'ünï 名前 🙂', "it's (1)", 'tab-less']) {
    expect(toPrintable(name)).toBe(name)
  }
})

test('every mark that reorders text is written as its number', () => {
  const marks = ['061c', '200e', '200f', '2028', '2029', '202a', '202e', '2066', '2069']
  for (const mark of marks) {
    const text = `a${String.fromCodePoint(Number.parseInt(mark, 16))}b`
    expect(toPrintable(text)).toBe(`a\\u{${Number.parseInt(mark, 16).toString(16)}}b`)
    expect(toPrintableJson(text)).toBe(`"a\\u${mark}b"`)
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
