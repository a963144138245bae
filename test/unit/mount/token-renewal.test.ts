import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { TokenRenewal } from '../../../src/mount/token-renewal.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import { recordingLog, type LogLine } from '../service/harness.ts'

const OLD = 'the-old-token'
const OWNERS: Readonly<Record<string, string>> = { 'the-new-token': 'me', 'their-token': 'them' }

let directory = ''
let path = ''
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bagfs-token-'))
  path = join(directory, 'token')
})
afterEach(() => rm(directory, { recursive: true }))

function watch({ uid }: { readonly uid?: string } = { uid: 'me' }) {
  const log = recordingLog()
  const heard: string[] = []
  const tokens = new TokenRenewal({
    place: { kind: 'file', path },
    log,
    uid: () => uid,
    uidOf: (token) => {
      heard.push(`asked for ${token}`)
      const owner = OWNERS[token]
      if (owner !== undefined) return Promise.resolve(owner)
      return Promise.reject(new DriveError('unauthorized', 'No.'))
    },
    onSecret: (token) => heard.push(`hidden ${token}`),
    onRenewed: (token) => heard.push(`renewed ${token}`),
  })
  const put = (token: string): Promise<void> => writeFile(path, `${token}\n`, { mode: 0o600 })
  const levels = (): readonly LogLine['level'][] => log.lines.map(({ level }) => level)
  return { tokens, heard, put, levels }
}

it('finds a new token of the account, which is hidden before anybody is asked', async () => {
  const { tokens, heard, put } = watch()
  await put('the-new-token')
  expect(await tokens.renew(OLD)).toBe('the-new-token')
  const steps = ['hidden', 'asked for', 'renewed']
  expect(heard).toEqual(steps.map((step) => `${step} the-new-token`))
})

it('asks nobody while the file has the token that was refused', async () => {
  const { tokens, heard, put } = watch()
  await put(OLD)
  expect(await tokens.renew(OLD)).toBeUndefined()
  expect(heard).toEqual([])
})

it('refuses the token of another account, and asks for it once', async () => {
  const { tokens, heard, put, levels } = watch()
  await put('their-token')
  expect(await tokens.renew(OLD)).toBeUndefined()
  expect(await tokens.renew(OLD)).toBeUndefined()
  expect(heard).toEqual(['hidden their-token', 'asked for their-token'])
  expect(levels()).toEqual(['error'])
  await put('the-new-token')
  expect(await tokens.renew(OLD)).toBe('the-new-token')
})

it('takes none before the account is known', async () => {
  const { tokens, heard, put, levels } = watch({})
  await put('the-new-token')
  expect(await tokens.renew(OLD)).toBeUndefined()
  expect(heard).toEqual(['hidden the-new-token'])
  expect(levels()).toEqual([])
})

it('goes on without when the file cannot be read or its token is refused too', async () => {
  const { tokens, heard, put, levels } = watch()
  expect(await tokens.renew(OLD)).toBeUndefined()
  await put('a-bad-token')
  expect(await tokens.renew(OLD)).toBeUndefined()
  expect(heard).toEqual(['hidden a-bad-token', 'asked for a-bad-token'])
  expect(levels()).toEqual(['warn', 'info'])
})
