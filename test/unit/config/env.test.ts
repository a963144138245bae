import { expect, test } from 'vitest'
import { readEnvironment, takeEnvironment } from '../../../src/config/env.ts'

test('each option of a mount has a variable, and a variable that is none is left alone', () => {
  const variables = { BAGFS_URL: 'http://a', BAGFS_CACHE_SIZE: ' 5GB ', BAGFS_NONSENSE: 'x' }
  expect(readEnvironment(variables)).toEqual({
    options: { url: 'http://a', cacheSize: '5GB' },
    searchPath: '/usr/bin:/bin',
  })
})

test('BAGFS_TOKEN and OPENFILES_API_TOKEN, which is the last resort, are told apart', () => {
  const both = { BAGFS_TOKEN: 'ours', OPENFILES_API_TOKEN: 'theirs', BAGFS_PROFILE: 'work' }
  expect(readEnvironment(both)).toMatchObject({
    token: 'ours',
    lastResortToken: 'theirs',
    profile: 'work',
  })
})

test('a variable that is set to nothing counts as not set', () => {
  const variables = { BAGFS_URL: '  ', BAGFS_TOKEN: '' }
  expect(readEnvironment(variables)).toEqual({ options: {}, searchPath: '/usr/bin:/bin' })
})

test('what is taken from the environment has no token left for programs that are started, nor the socket of the service manager', () => {
  const taken = { BAGFS_TOKEN: 'ours', OPENFILES_API_TOKEN: 'theirs', NOTIFY_SOCKET: '@x' }
  const variables = { ...taken, PATH: '/bin' }
  const notifySocket = '@x'
  expect(takeEnvironment(variables)).toMatchObject({
    token: 'ours',
    notifySocket,
    searchPath: '/bin',
  })
  expect(variables).toEqual({ PATH: '/bin' })
})
