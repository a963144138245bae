import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { configPath, readProfiles } from '../../../src/profiles/config-file.ts'
import { useTempDir } from '../state/temp-dir.ts'

const dir = useTempDir()

beforeEach(() => {
  vi.stubEnv('XDG_CONFIG_HOME', dir.path)
  mkdirSync(join(dir.path, 'bagfs'), { mode: 0o700 })
  return () => {
    vi.unstubAllEnvs()
  }
})

describe('what lies in the place of the config file', () => {
  it.each([
    [
      'a directory',
      (path: string): void => {
        mkdirSync(path)
      },
    ],
    ['a pipe that nobody writes to', (path: string) => execFileSync('mkfifo', [path])],
    [
      'a device without an end',
      (path: string): void => {
        symlinkSync('/dev/zero', path)
      },
    ],
  ])('is refused at once when it is %s', async (_, make) => {
    make(configPath())
    await expect(readProfiles()).rejects.toMatchObject({
      code: 'usage',
      message: `${configPath()} is not a file.`,
      facts: { hint: expect.stringContaining('bagfs login') as unknown },
    })
  })

  it('is refused when it is no text of a person', async () => {
    writeFileSync(configPath(), Buffer.alloc(2 ** 20 + 1), { mode: 0o600 })
    await expect(readProfiles()).rejects.toMatchObject({
      code: 'usage',
      message: `${configPath()} is too large to be a config file.`,
    })
  })

  it('is nothing when it is not there', async () => {
    expect(await readProfiles()).toEqual({ path: configPath(), all: [] })
  })
})
