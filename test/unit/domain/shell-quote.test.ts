import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { shellQuote } from '../../../src/domain/shell-quote.ts'

test.each([
  'plain',
  '/a/b-c_d.txt',
  'work:docs/a',
  'two words',
  "it's",
  '$HOME `x` "y" \\',
  '~/a',
  '*',
  '',
  "line\nend\t'\\",
  '\u0085next',
])('%j is one word of bash when it is quoted', (word) => {
  const quoted = shellQuote(word)
  expect(quoted).not.toMatch(/\p{Cc}/u)
  const shown = execFileSync('bash', ['-c', `printf %s ${quoted}`], {
    env: { ...process.env, LC_ALL: 'C.UTF-8' },
  })
  if (!word.includes('\u0085')) expect(shown.toString()).toBe(word)
})

test('what needs no quotes has none', () => {
  expect(shellQuote('/mnt/drive')).toBe('/mnt/drive')
  expect(shellQuote('my drive')).toBe("'my drive'")
})
