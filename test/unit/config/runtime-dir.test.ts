import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { findRuntimeDir } from '../../../src/config/runtime-dir.ts'
import { useTempDir } from '../state/temp-dir.ts'

const dir = useTempDir()
afterEach(() => {
  vi.unstubAllEnvs()
})

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

test.each(['a file', 'a link'])(
  'is in the state directory where %s has its name in /tmp',
  async (what) => {
    vi.stubEnv('TMPDIR', dir.path)
    vi.stubEnv('XDG_STATE_HOME', join(dir.path, 'home'))
    const taken = join(dir.path, `bagfs-${process.getuid?.() ?? 0}`)
    if (what === 'a file') await writeFile(taken, '')
    else {
      await mkdir(join(dir.path, 'of another user'))
      await symlink(join(dir.path, 'of another user'), taken)
    }
    expect(findRuntimeDir({})).toBe(join(dir.path, 'home', 'bagfs', 'run'))
  },
)
