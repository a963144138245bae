import { describe, expect, it } from 'vitest'
import { fitScreen } from '../../../src/cli/fit-screen.ts'

const lines = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `line ${at + 1}`)

describe('what is shown on a screen', () => {
  it('has no more rows than the screen, less that of the cursor, and tells what is left out', () => {
    expect(fitScreen(lines(4), { columns: 80, rows: 5 })).toEqual(lines(4))
    expect(fitScreen(lines(5), { columns: 80, rows: 5 })).toEqual([
      ...lines(3),
      '(2 more lines: bagfs status has all)',
    ])
    expect(fitScreen(lines(5), { columns: 80, rows: 1 })).toHaveLength(1)
  })

  it.each([
    ['1234567890', '1234567890'],
    ['12345678901', '123456789…'],
    ['e\u0301'.repeat(10), 'e\u0301'.repeat(10)],
    ['e\u0301'.repeat(11), `${'e\u0301'.repeat(9)}…`],
    ['日本語日本', '日本語日本'],
    ['日本語日本語', '日本語日…'],
    ['a😀😀😀😀😀', 'a😀😀😀😀…'],
    ['', ''],
  ])('has no line that is wider: %j', (line, shown) => {
    expect(fitScreen([line], { columns: 10, rows: 5 })).toEqual([shown])
  })
})
