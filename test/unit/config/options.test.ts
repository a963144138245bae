import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { MOUNT_OPTIONS, parseOptionValue, withDefault } from '../../../src/config/options.ts'
import type { MountOption } from '../../../src/config/options.ts'

const options: readonly MountOption[] = Object.values(MOUNT_OPTIONS)

function readmeRow({ flags, default: typed, defaultWords, help }: MountOption): string {
  const shown = typed === 'false' ? 'off' : typed === 'true' ? 'on' : (typed ?? defaultWords ?? '')
  return `| \`${flags}\` | ${shown} | ${help} |`
}

test("README's option table has exactly the options of this table", async () => {
  const readme = await readFile(new URL('../../../README.md', import.meta.url), 'utf8')
  const rows = readme.split('\n').filter((line) => line.startsWith('| `--'))
  const plain = (row: string): string => row.replace(/ +/g, ' ')
  expect(rows.map(plain)).toEqual(options.map(readmeRow))
})

test.each(options.filter((option) => option.default !== undefined))(
  'the default of $flags can be parsed',
  (option) => {
    expect(() => parseOptionValue(option.kind, option.default ?? '')).not.toThrow()
  },
)

test('what the person typed goes before the default', () => {
  expect(withDefault({}, 'cacheSize')).toBe(10e9)
  expect(withDefault({ cacheSize: 5 }, 'cacheSize')).toBe(5)
  expect(withDefault({}, 'writeBack')).toBe(false)
  expect(withDefault({ writeBack: true }, 'writeBack')).toBe(true)
  expect(withDefault({}, 'umask')).toBe(0o022)
})

test.each([
  ['id', '-1'],
  ['id', '4294967295'],
  ['id', 'root'],
  ['umask', '8'],
  ['umask', '1777'],
  ['level', 'loud'],
  ['url', 'example.org'],
] as const)('an option of kind %s refuses %j', (kind, text) => {
  expect(() => parseOptionValue(kind, text)).toThrow(expect.objectContaining({ code: 'usage' }))
})

test.each([
  ['id', '0', 0],
  ['id', '4294967294', 4294967294],
  ['umask', '077', 0o077],
  ['umask', '22', 0o022],
  ['level', 'debug', 'debug'],
] as const)('an option of kind %s takes %j', (kind, text, value) => {
  expect(parseOptionValue(kind, text)).toBe(value)
})
