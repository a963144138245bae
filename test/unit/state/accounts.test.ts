import { readFile, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import {
  recallAuthHeader,
  recallUid,
  rememberAuthHeader,
  rememberUid,
  stateDirFor,
} from '../../../src/state/accounts.ts'
import { useTempDir } from './temp-dir.ts'

const dir = useTempDir()
const root = (): string => join(dir.path, 'state')
const URL_A = 'http://127.0.0.1:4711'
const TOKEN = 'token-that-must-not-be-stored'

test('a state directory is readable and never shared by two accounts', () => {
  const one = stateDirFor('/r', URL_A, 'u1')
  expect(dirname(one)).toBe('/r')
  expect(basename(one)).toMatch(/^127\.0\.0\.1_4711-[0-9a-f]{16}$/)
  expect(stateDirFor('/r', URL_A, 'u1')).toBe(one)
  expect(stateDirFor('/r', URL_A, 'u2')).not.toBe(one)
  expect(stateDirFor('/r', 'http://127.0.0.1/4711', 'u1')).not.toBe(one)
  expect(dirname(stateDirFor('/r', 'local:/../..', '../../etc'))).toBe('/r')
})

test('what was remembered of a login is recalled for that service and token only', async () => {
  await rememberUid(root(), URL_A, TOKEN, 'u1')
  await rememberAuthHeader(root(), URL_A, TOKEN, 'x-authorization')
  await rememberUid(root(), URL_A, 'other', 'u2')
  expect(await recallUid(root(), URL_A, TOKEN)).toBe('u1')
  expect(await recallAuthHeader(root(), URL_A, TOKEN)).toBe('x-authorization')
  expect(await recallUid(root(), URL_A, 'other')).toBe('u2')
  expect(await recallAuthHeader(root(), URL_A, 'other')).toBeUndefined()
  expect(await recallUid(root(), 'http://elsewhere', TOKEN)).toBeUndefined()
  await rememberUid(root(), URL_A, TOKEN, 'u3')
  expect(await recallUid(root(), URL_A, TOKEN)).toBe('u3')
})

test('nothing is known before anything was remembered, nor from a file that makes no sense', async () => {
  expect(await recallUid(root(), URL_A, TOKEN)).toBeUndefined()
  await rememberUid(root(), URL_A, TOKEN, 'u1')
  for (const text of ['', '{"version":1', '{"version":2}', '[]']) {
    await writeFile(join(root(), 'accounts.json'), text)
    expect(await recallUid(root(), URL_A, TOKEN)).toBeUndefined()
  }
  await rememberUid(root(), URL_A, TOKEN, 'u2')
  expect(await recallUid(root(), URL_A, TOKEN)).toBe('u2')
})

test('the file is private and holds neither the token nor a digest that is the same elsewhere', async () => {
  await rememberUid(root(), URL_A, TOKEN, 'u1')
  const path = join(root(), 'accounts.json')
  expect((await stat(root())).mode & 0o777).toBe(0o700)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readFile(path, 'utf8')).not.toContain(TOKEN)
  const elsewhere = join(dir.path, 'elsewhere')
  await rememberUid(elsewhere, URL_A, TOKEN, 'u1')
  const keys = async (at: string): Promise<readonly string[]> => {
    const { profiles } = JSON.parse(await readFile(join(at, 'accounts.json'), 'utf8')) as {
      profiles: object
    }
    return Object.keys(profiles)
  }
  expect(await keys(root())).toHaveLength(1)
  expect(await keys(elsewhere)).not.toEqual(await keys(root()))
})

test('a root that is not a directory is told as an error of this machine', async () => {
  await writeFile(root(), '')
  await expect(rememberUid(root(), URL_A, TOKEN, 'u')).rejects.toMatchObject({ code: 'local-io' })
})
