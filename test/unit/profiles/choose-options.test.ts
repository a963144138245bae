import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { readEnvironment } from '../../../src/config/env.ts'
import type { MountFlags } from '../../../src/config/options.ts'
import { chooseOptions, type ChosenOptions } from '../../../src/profiles/choose-options.ts'
import { useTempDir } from '../state/temp-dir.ts'

const dir = useTempDir()
const WORK = 'https://work.example'
const OTHER = 'https://other.example'

beforeEach(() => {
  vi.stubEnv('XDG_CONFIG_HOME', dir.path)
  mkdirSync(join(dir.path, 'bagfs'), { mode: 0o700 })
  writeFileSync(
    join(dir.path, 'bagfs/config.yaml'),
    `default: work
profiles:
  work:
    url: ${WORK}
    token: keyring
    cache-size: 5GB
    write-back: true
  second:
    url: ${OTHER}
    token-file: /secret
  home:
    local: /data
`,
    { mode: 0o600 },
  )
  return () => {
    vi.unstubAllEnvs()
  }
})

function choose(
  flags: MountFlags = {},
  variables: Readonly<Record<string, string>> = {},
  profile?: string,
): Promise<ChosenOptions> {
  return chooseOptions({ environment: readEnvironment(variables), flags, profile })
}

/** The token in one word: the place of a kept one, or the token of the environment. */
function wordFor({ token }: ChosenOptions): string | undefined {
  if (token === undefined) return undefined
  if (token.from === 'environment') return token.token
  return token.place.kind === 'file' ? token.place.path : `keyring ${token.place.profile}`
}

it('takes a flag before the environment, that before the profile, and that before the default', async () => {
  const { options, origins } = await choose(
    { minFree: 3 },
    { BAGFS_MIN_FREE: '2GB', BAGFS_CACHE_SIZE: '7GB' },
  )
  expect(options).toMatchObject({ minFree: 3, cacheSize: 7e9, writeBack: true, url: WORK })
  expect(options.timeout).toBeUndefined()
  expect(origins).toMatchObject({
    minFree: { from: 'flag' },
    cacheSize: { from: 'environment', variable: 'BAGFS_CACHE_SIZE' },
    writeBack: { from: 'profile', profile: 'work', line: 7 },
  })
})

describe('of two options that contradict each other', () => {
  it('the stronger place has its way', async () => {
    expect((await choose({ readOnly: true })).options.writeBack).toBeUndefined()
    const local = await choose({ local: '/mine' })
    expect(local.options).toMatchObject({ local: '/mine' })
    expect(local.options.url).toBeUndefined()
    expect(local.token).toBeUndefined()
  })

  it('none is taken from one place', async () => {
    await expect(choose({ readOnly: true, writeBack: true })).rejects.toThrow(
      '--read-only and --write-back do not go together.',
    )
    await expect(choose({}, { BAGFS_LOCAL: 'true', BAGFS_URL: OTHER })).rejects.toThrow(
      'BAGFS_LOCAL and BAGFS_URL do not go together.',
    )
  })

  it('what is turned off contradicts nothing', async () => {
    const { options } = await choose({ writeBack: false, readOnly: true })
    expect(options).toMatchObject({ writeBack: false, readOnly: true })
  })
})

describe('the token', () => {
  it('is that of the default profile, unless the environment has one', async () => {
    expect(wordFor(await choose())).toBe('keyring work')
    expect(wordFor(await choose({}, { BAGFS_TOKEN: 'env' }))).toBe('env')
    expect(wordFor(await choose({ tokenFile: 'f' }, { BAGFS_TOKEN: 'env' }))).toBe('f')
  })

  it('of a profile goes to no other service', async () => {
    expect(wordFor(await choose({ url: OTHER }))).toBeUndefined()
    expect(wordFor(await choose({}, { BAGFS_URL: OTHER }))).toBeUndefined()
    expect(wordFor(await choose({ url: `${WORK}/` }))).toBe('keyring work')
    expect(wordFor(await choose({ url: OTHER }, { BAGFS_TOKEN: 'env' }))).toBe('env')
  })

  it('of the environment goes to no profile that is named', async () => {
    const variables = { BAGFS_URL: WORK, BAGFS_TOKEN: 'env', BAGFS_CACHE_SIZE: '1GB' }
    const chosen = await choose({}, variables, 'second')
    expect(chosen.options).toMatchObject({ url: OTHER, cacheSize: 1e9 })
    expect(wordFor(chosen)).toBe('/secret')
    expect((await choose({}, variables, 'home')).options).toMatchObject({ local: '/data' })
  })

  it('of the last resort is taken only where there is no other', async () => {
    expect(wordFor(await choose({}, { OPENFILES_API_TOKEN: 'old' }))).toBe('keyring work')
    expect(wordFor(await choose({ url: OTHER }, { OPENFILES_API_TOKEN: 'old' }))).toBe('old')
  })

  it('given for the embedded service is refused: it was meant for another', async () => {
    await expect(choose({ tokenFile: 'f' }, {}, 'home')).rejects.toThrow(
      '--token-file and local of profile home do not go together.',
    )
  })
})

it('BAGFS_PROFILE names the profile, and the command line another one', async () => {
  expect((await choose({}, { BAGFS_PROFILE: 'second' })).options.url).toBe(OTHER)
  expect((await choose({}, { BAGFS_PROFILE: 'second' }, 'work')).options.url).toBe(WORK)
  await expect(choose({}, { BAGFS_PROFILE: 'nobody' })).rejects.toThrow(
    'There is no profile called nobody.',
  )
})

it('a variable that cannot be understood is named', async () => {
  await expect(choose({}, { BAGFS_CACHE_SIZE: '12q' })).rejects.toThrow(
    'BAGFS_CACHE_SIZE: "12q" is not a size.',
  )
})
