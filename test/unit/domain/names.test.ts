import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  checkTypedName,
  cutName,
  encodeName,
  insertBeforeExtension,
  splitName,
} from '../../../src/domain/names.ts'

/** Any string of UTF-16 units, with the troublesome ones often. */
const unit = fc.oneof(
  fc.constantFrom(
    '/',
    '\0',
    '‛',
    '.',
    '\n',
    '\x7f',
    '\x85',
    '\ud83d',
    '\ude00',
    '~',
    'u',
    '2',
    'F',
  ),
  fc.nat(0xffff).map((code) => String.fromCharCode(code)),
)
const anyName = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.string({ minLength: 250, maxLength: 260 }),
  fc.array(unit, { maxLength: 400 }).map((units) => units.join('')),
  fc.constantFrom('', '.', '..', '.bagfs', '.bags', '.fuse_hidden0001', '.fuse_hidden\n', '‛empty'),
)
const bytes = (text: string): number => Buffer.byteLength(text)
/** The service name of a coded name that was not cut. */
const decoded = (shown: string): string =>
  shown === '‛empty'
    ? ''
    : shown.replace(/‛(‛|u[0-9A-F]{4}|[0-9A-F]{2})/g, (_, code: string) =>
        code === '‛' ? code : String.fromCharCode(parseInt(code.replace('u', ''), 16)),
      )
const isCut = (shown: string): boolean => /^(?:‛‛|[^‛]|‛[^‛~])*‛~[0-9a-f]{16}/u.test(shown)

describe('encodeName', () => {
  test('shows ordinary names as they are', () => {
    for (const name of [
      'a',
      'Résumé 2.pdf',
      '日本語.txt',
      '😀.png',
      '.bashrc',
      '...',
      '.bagfsx',
      'a‘b',
    ]) {
      expect(encodeName(name)).toBe(name)
    }
  })

  test('codes each thing that cannot be shown in its documented form', () => {
    const forms = {
      '': '‛empty',
      '.': '‛2E',
      '..': '‛2E.',
      '.bagfs': '‛2Ebagfs',
      '.bags': '‛2Ebags',
      '.fuse_hidden01': '‛2Efuse_hidden01',
      'a/b': 'a‛2Fb',
      'a\0b\n': 'a‛00b‛0A',
      '\x7f\x9f': '‛7F‛9F',
      'a\ud800b': 'a‛uD800b',
      'a\ufffdb': 'a‛uFFFDb',
      'a‛b': 'a‛‛b',
      '‛2F': '‛‛2F',
      '‛empty': '‛‛empty',
    }
    for (const [name, shown] of Object.entries(forms)) {
      expect(encodeName(name)).toBe(shown)
      expect(decoded(shown)).toBe(name)
    }
  })

  test('always makes a name that Linux takes', () => {
    fc.assert(
      fc.property(anyName, (name) => {
        const shown = encodeName(name)
        expect(bytes(shown)).toBeGreaterThan(0)
        expect(bytes(shown)).toBeLessThanOrEqual(255)
        expect(shown).not.toMatch(/[/\u0000-\u001f\u007f-\u009f\ud800-\udfff]/u)
        expect(shown).not.toMatch(/^(\.|\.\.|\.bagfs|\.bags|\.fuse_hidden.*)$/su)
        expect(Buffer.from(shown).toString()).toBe(shown)
      }),
      { numRuns: 1000 },
    )
  })

  test('decodes back to any name whose coded form fits', () => {
    fc.assert(
      fc.property(anyName, (name) => {
        const shown = encodeName(name)
        if (!isCut(shown)) expect(decoded(shown)).toBe(name)
      }),
      { numRuns: 1000 },
    )
  })

  test('never shows two names alike, not even one that looks like the code of the other', () => {
    fc.assert(
      fc.property(anyName, anyName, (one, other) => {
        fc.pre(one !== other)
        expect(encodeName(one)).not.toBe(encodeName(other))
        expect(encodeName(encodeName(one)) === encodeName(one)).toBe(!encodeName(one).includes('‛'))
      }),
      { numRuns: 1000 },
    )
  })

  test('cuts only names over 255 bytes, between codes, and keeps the extension', () => {
    expect(encodeName('a'.repeat(255))).toBe('a'.repeat(255))
    expect(isCut(encodeName('a'.repeat(256)))).toBe(true)
    expect(encodeName('é'.repeat(127) + 'a')).toBe('é'.repeat(127) + 'a')
    const shown = encodeName('/😀'.repeat(100) + '.tar.gz')
    expect(shown).toMatch(/^(‛2F😀)+(‛2F)?‛~[0-9a-f]{16}\.tar\.gz$/u)
    expect(bytes(shown)).toBeGreaterThan(245)
    expect(encodeName('x'.repeat(300) + '1')).not.toBe(encodeName('x'.repeat(300) + '2'))
    expect(encodeName('x'.repeat(300) + '\ud800')).not.toBe(encodeName('x'.repeat(300) + '\ud801'))
  })
})

describe('checkTypedName', () => {
  test('takes what Linux takes', () => {
    for (const name of ['a', '...', 'a‛b', 'a\nb', 'é'.repeat(127)]) {
      expect(() => {
        checkTypedName(name)
      }).not.toThrow()
    }
  })

  test.each(['', '.', '..', 'a/b', 'a\0'])('refuses %j as a bad name', (name) => {
    expect(() => {
      checkTypedName(name)
    }).toThrow(expect.objectContaining({ code: 'bad-name' }))
  })

  test('refuses more than 255 bytes, however few characters', () => {
    expect(() => {
      checkTypedName('é'.repeat(128))
    }).toThrow(expect.objectContaining({ code: 'name-too-long' }))
  })
})

describe('splitName', () => {
  test.each([
    ['a.txt', 'a', '.txt'],
    ['a.b.txt', 'a.b', '.txt'],
    ['a.tar.gz', 'a', '.tar.gz'],
    ['A.TAR.xz', 'A', '.TAR.xz'],
    ['.tar.gz', '.tar', '.gz'],
    ['.bashrc', '.bashrc', ''],
    ['.a.b', '.a', '.b'],
    ['plain', 'plain', ''],
    ['ends.', 'ends.', ''],
    ['Dr. Who', 'Dr. Who', ''],
  ])('splits %s', (shown, stem, extension) => {
    expect(splitName(shown)).toEqual({ stem, extension })
  })
})

test('a mark goes before the extension and the whole keeps to 255 bytes', () => {
  expect(insertBeforeExtension('a.tar.gz', ' (1)')).toBe('a (1).tar.gz')
  const long = insertBeforeExtension('‛2F'.repeat(42) + '.txt', ' (1234567890)')
  expect(long).toMatch(/^(‛2F)+ \(1234567890\)\.txt$/)
  expect(bytes(long)).toBeLessThanOrEqual(255)
})

test('cutName splits neither a code nor a code point', () => {
  expect(cutName('a‛2Fb', 5)).toBe('a')
  expect(cutName('a😀b', 4)).toBe('a')
  expect(cutName('a😀b', 5)).toBe('a😀')
})
