import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findRuntimeDir } from '../../../src/config/runtime-dir.ts'
import { useTempDir } from '../state/temp-dir.ts'

const dir = useTempDir()

test('is made where XDG_RUNTIME_DIR says', () => {
  expect(findRuntimeDir({ XDG_RUNTIME_DIR: dir.path })).toBe(join(dir.path, 'bagfs'))
})

test('is refused in one sentence where it cannot be made', async () => {
  const file = join(dir.path, 'file')
  await writeFile(file, '')
  for (const XDG_RUNTIME_DIR of [file, '/proc/1/fd', '/dev/null']) {
    expect(() => findRuntimeDir({ XDG_RUNTIME_DIR })).toThrow(
      expect.objectContaining({
        code: 'usage',
        message: expect.stringMatching(
          /^The runtime directory .* cannot be used \(E\w+\)\.$/,
        ) as string,
      }),
    )
  }
})
