import { expect, test } from 'vitest'
import { readEnvironment, takeEnvironment } from '../../../src/config/env.ts'

test('BAGFS_TOKEN goes before OPENFILES_API_TOKEN, which is the last resort', () => {
  const both = { BAGFS_TOKEN: 'ours', OPENFILES_API_TOKEN: 'theirs' }
  expect(readEnvironment(both)).toMatchObject({ token: 'ours' })
  expect(readEnvironment({ OPENFILES_API_TOKEN: 'theirs' })).toMatchObject({ token: 'theirs' })
})

test('a variable that is set to nothing counts as not set', () => {
  expect(readEnvironment({ BAGFS_URL: '  ', BAGFS_TOKEN: '' })).toEqual({ searchPath: '' })
})

test('what is taken from the environment has no token left for programs that are started', () => {
  const variables = { BAGFS_TOKEN: 'ours', OPENFILES_API_TOKEN: 'theirs', PATH: '/bin' }
  expect(takeEnvironment(variables)).toEqual({ token: 'ours', searchPath: '/bin' })
  expect(variables).toEqual({ PATH: '/bin' })
})
