import { execFileSync } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readTokenFile } from '../../../src/config/token.ts'

let directory = ''

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bagfs-token-'))
})
afterEach(() => rm(directory, { recursive: true }))

async function tokenFile(content: string, mode = 0o600): Promise<string> {
  const path = join(directory, 'token')
  await writeFile(path, content)
  await chmod(path, mode)
  return path
}

test('white space around the token is ignored', async () => {
  const path = await tokenFile('  secret-from-file \n\n')
  await expect(readTokenFile(path)).resolves.toBe('secret-from-file')
})

test.each([
  [0o640, 'be read by'],
  [0o604, 'be read by'],
  [0o620, 'be changed by'],
  [0o602, 'be changed by'],
  [0o666, 'be read and changed by'],
])(
  'a token file with mode %o is refused with the command that mends it: %s',
  async (mode, words) => {
    const path = await tokenFile('secret', mode)
    await expect(readTokenFile(path)).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringContaining(words) as string,
      facts: { hint: expect.stringContaining(`chmod 600 ${path}`) as string },
    })
  },
)

test('a token that a shell hands over in a pipe is taken, whoever may open that', async () => {
  const path = join(directory, 'pipe')
  execFileSync('mkfifo', ['-m', '666', path])
  const read = readTokenFile(path)
  await writeFile(path, 'secret')
  await expect(read).resolves.toBe('secret')
})

test.each([
  'a-secret-0123456789',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
  'c2VjcmV0/c2VjcmV0+Zm9v==',
  'package.json/secret',
  's'.repeat(5_000),
])('a token in place of the path of its file is not repeated: %.40s', async (tokenFile) => {
  const failure = (await readTokenFile(tokenFile).catch((error: unknown) => error)) as Error
  expect(failure).toMatchObject({ code: 'usage', message: 'The token file does not exist.' })
  expect(inspect(failure)).not.toContain(tokenFile)
})

test.each(['', ' \n', 'two words', 'line\nline', 'ü'])(
  'a token file that holds %j is refused without its content in the message',
  async (content) => {
    const path = await tokenFile(content)
    const failure = readTokenFile(path)
    await expect(failure).rejects.toMatchObject({ code: 'usage' })
    if (content.trim() !== '') await expect(failure).rejects.not.toThrow(content)
  },
)

test('a token file that does not exist or is huge is a usage error', async () => {
  const missing = join(directory, 'nowhere')
  await expect(readTokenFile(missing)).rejects.toMatchObject({ code: 'usage' })
  const huge = await tokenFile('x'.repeat(70_000))
  await expect(readTokenFile(huge)).rejects.toMatchObject({ code: 'usage' })
})
