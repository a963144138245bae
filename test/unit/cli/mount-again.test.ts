import { resolve } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { mountAgain } from '../../../src/cli/mount-again.ts'
import { typedOptions } from '../../../src/cli/typed-options.ts'

beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', '/state')
})
afterEach(() => {
  vi.unstubAllEnvs()
})

test('a drive is mounted again by its profile and with the options that were typed', () => {
  const options = typedOptions(
    {
      ...{ writeBack: true, allowOther: false, cacheSize: 20e9, foreground: true },
      ...{ local: true, tokenFile: 'token', description: 'my drive', umask: 0o77 },
    },
    new Map([
      ['cacheSize', '20GB'],
      ['description', 'my drive'],
      ['umask', '077'],
    ]),
  )
  expect(options).toEqual([
    ...['--local', `--token-file=${resolve('token')}`, '--cache-size=20GB', '--write-back'],
    ...['--no-allow-other', '--umask=077', '--description=my drive'],
  ])
  expect(mountAgain({ mountpoint: '/m', profile: 'work', options: options.slice(-1) })).toBe(
    "bagfs mount work:/m '--description=my drive'",
  )
})

test('a drive whose options are not known is mounted again where its changes are', () => {
  expect(mountAgain({ mountpoint: '/my drive' })).toBe("bagfs mount '/my drive'")
  const usual = { mountpoint: '/m', stateDir: '/state/bagfs/account' }
  expect(mountAgain(usual)).toBe('bagfs mount /m')
  const other = { mountpoint: '/m', stateDir: '/other/account' }
  expect(mountAgain(other)).toBe('bagfs mount /m --state-dir=/other')
  expect(mountAgain({ ...other, options: ['--state-dir=/other'] })).toBe(
    'bagfs mount /m --state-dir=/other',
  )
})
