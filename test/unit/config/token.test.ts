import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readToken } from '../../../src/config/token.ts'

let directory = ''
let warnings: string[] = []
const warn = (sentence: string): void => {
  warnings.push(sentence)
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bagfs-token-'))
  warnings = []
})
afterEach(() => rm(directory, { recursive: true }))

async function tokenFile(content: string, mode = 0o600): Promise<string> {
  const path = join(directory, 'token')
  await writeFile(path, content)
  await chmod(path, mode)
  return path
}

test('a token file goes before the environment, and white space around the token is ignored', async () => {
  const path = await tokenFile('  secret-from-file \n\n')
  const sources = { tokenFile: path, environmentToken: 'from-environment' }
  await expect(readToken(sources, warn)).resolves.toBe('secret-from-file')
  expect(warnings).toEqual([])
})

test.each([0o640, 0o604])('a token file with mode %o gets a warning and is used', async (mode) => {
  const path = await tokenFile('secret', mode)
  await expect(readToken({ tokenFile: path }, warn)).resolves.toBe('secret')
  expect(warnings).toEqual([expect.stringContaining('chmod 600')])
})

test.each([
  [0o620, 'changed by'],
  [0o602, 'changed by'],
  [0o666, 'read and changed by'],
])('a token file with mode %o that others can change gets a warning: %s', async (mode, words) => {
  const path = await tokenFile('secret', mode)
  await expect(readToken({ tokenFile: path }, warn)).resolves.toBe('secret')
  expect(warnings).toEqual([expect.stringContaining(words)])
})

test.each([
  'a-secret-0123456789',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
  'c2VjcmV0/c2VjcmV0+Zm9v==',
  'package.json/secret',
  's'.repeat(5_000),
])('a token in place of the path of its file is not repeated: %.40s', async (tokenFile) => {
  const failure = (await readToken({ tokenFile }, warn).catch((error: unknown) => error)) as Error
  expect(failure).toMatchObject({ code: 'usage', message: 'The token file does not exist.' })
  expect(inspect(failure)).not.toContain(tokenFile)
})

test('without any token a usage error says where to get one', async () => {
  await expect(readToken({}, warn)).rejects.toMatchObject({
    code: 'usage',
    facts: { hint: expect.stringContaining('dashboard') as string },
  })
})

test.each(['', ' \n', 'two words', 'line\nline', 'ü'])(
  'a token file that holds %j is refused without its content in the message',
  async (content) => {
    const path = await tokenFile(content)
    const failure = readToken({ tokenFile: path }, warn)
    await expect(failure).rejects.toMatchObject({ code: 'usage' })
    if (content.trim() !== '') await expect(failure).rejects.not.toThrow(content)
  },
)

test('a token file that does not exist or is huge is a usage error', async () => {
  const missing = { tokenFile: join(directory, 'nowhere') }
  await expect(readToken(missing, warn)).rejects.toMatchObject({ code: 'usage' })
  const huge = { tokenFile: await tokenFile('x'.repeat(70_000)) }
  await expect(readToken(huge, warn)).rejects.toMatchObject({ code: 'usage' })
})
