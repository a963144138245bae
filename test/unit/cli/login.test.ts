import { createServer, request } from 'node:http'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../../src/local-service/server.ts'
import { Terminal } from '../../support/terminal.ts'
import { BuiltProgram, type Outcome } from './built-program.ts'

const TOKEN = 'a-token-of-this-test-0123456789'
const OTHER_TOKEN = 'another-token-of-this-test-012345'

let program: BuiltProgram
let service: LocalService
let home = ''
let counter = 0
/** Of each program that is started; the home is another one in each test. */
let variables: Record<string, string> = {}

beforeAll(async () => {
  program = await BuiltProgram.build()
  service = await startLocalService(
    { dataDir: join(program.directory, 'data'), tokens: [TOKEN, OTHER_TOKEN] },
    { log: silentLogger },
  )
}, 120_000)

afterAll(async () => {
  await service.close()
  await program.remove()
})

beforeEach(async () => {
  counter += 1
  home = join(program.directory, `home-${counter}`)
  await mkdir(join(home, 'run'), { recursive: true, mode: 0o700 })
  variables = { HOME: home, XDG_RUNTIME_DIR: join(home, 'run') }
})

const bagfs = (...args: string[]): Promise<Outcome> => program.run(args, { cwd: home, variables })

/** Runs bagfs with `input` on stdin. */
async function bagfsReading(input: string, ...args: string[]): Promise<Outcome> {
  const child = program.start(args, { cwd: home, variables })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  child.stdin.end(input)
  const [exitCode] = (await once(child, 'close')) as [number | null]
  return { exitCode, stdout, stderr }
}

const login = (...args: string[]): Promise<Outcome> =>
  bagfsReading(`${TOKEN}\n`, 'login', '--url', service.url, ...args)

const config = (): string => join(home, '.config/bagfs/config.yaml')

function atTerminal(...args: string[]): Terminal {
  const main = join(program.directory, 'dist/main.js')
  const env = { PATH: process.env['PATH'], TERM: 'xterm', ...variables }
  return Terminal.start([process.execPath, main, ...args], { cwd: home, env })
}

/** A service that takes the token in the other header only. */
async function startOtherHeader(): Promise<{ url: string; tries: string[] }> {
  const tries: string[] = []
  const server = createServer((incoming, response) => {
    const given = incoming.headers['x-authorization']
    tries.push(given === undefined ? 'bearer' : 'x-authorization')
    const headers = {
      ...incoming.headers,
      authorization: given === TOKEN ? `Bearer ${TOKEN}` : 'no',
    }
    const { method, url: path } = incoming
    const outgoing = request(service.url + (path ?? ''), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    incoming.pipe(outgoing)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, tries }
}

/**
 * A keyring of a desktop: secret-tool as libsecret 0.20 has it, with its secrets in files. A locked one says nothing, and
 * tells of its items all the same.
 */
async function installKeyring(
  answers = true,
): Promise<{ dir: string; lock: string; log: () => Promise<string> }> {
  const bin = join(home, 'bin')
  const dir = join(home, 'keyring')
  const lock = join(home, 'keyring.lock')
  await mkdir(bin)
  await mkdir(dir)
  await writeFile(
    join(bin, 'secret-tool'),
    `#!/bin/sh
env >> '${home}/keyring.log'; echo "$@" >> '${home}/keyring.log'
${answers ? '' : 'echo "Cannot get secret: no answer" >&2; exit 1'}
verb=$1; shift
case $1 in --label*|--all) shift ;; esac
item='${dir}'/$(echo "$@" | sha256sum | cut -c1-16)
if [ -e '${lock}' ] && [ $verb != search ]; then exit 1; fi
case $verb in
search) if [ -f "$item" ]; then echo '[/1]'; echo 'secret-tool: Cannot get secret of a locked object' >&2; fi ;;
store) cat > "$item" ;;
lookup) test -f "$item" && cat "$item" ;;
clear) test -f "$item" && rm "$item" ;;
esac
`,
  )
  await chmod(join(bin, 'secret-tool'), 0o755)
  variables['PATH'] = `${bin}:${process.env['PATH'] ?? ''}`
  return { dir, lock, log: () => readFile(join(home, 'keyring.log'), 'utf8') }
}

describe('bagfs login', () => {
  test('at a terminal asks for URL and token, shows no letter of the token, and tells what to do next', async () => {
    const terminal = atTerminal('login')
    await terminal.answer('URL of the service [https://app.openfiles.xyz]: ', `${service.url}\r`)
    await terminal.answer('(it does not show): ', 'a-wrong-token-0123\r')
    await terminal.answer('Try again.', `${TOKEN}\r`)
    const { exitCode, shown } = await terminal.end()
    expect(shown).toContain('Kept as profile default, the default. Mount it: bagfs mount ~/drive')
    expect(shown).not.toContain(TOKEN.slice(0, 8))
    expect(shown).not.toContain('a-wrong')
    expect(exitCode).toBe(0)
    expect((await bagfs('df')).stdout).toContain('account ')
  })

  test('shows nothing of a token that is typed ahead of its question', async () => {
    const terminal = atTerminal('login', 'work')
    await terminal.answer('URL of the service', `${service.url}\r${TOKEN}\r`)
    const { exitCode, shown } = await terminal.end()
    expect(shown).not.toContain(TOKEN.slice(0, 8))
    expect(exitCode).toBe(0)
  })

  test('that is interrupted changes nothing', async () => {
    const terminal = atTerminal('login')
    await terminal.answer('URL of the service', `${service.url}\r`)
    await terminal.answer('(it does not show): ', `${TOKEN.slice(0, 5)}\x03`)
    const { exitCode, shown } = await terminal.end()
    expect(shown).toContain('nothing was changed')
    expect(exitCode).toBe(130)
    expect(await readdir(home)).toEqual(['run'])
  })

  test('takes the token from stdin; then every command works without a flag', async () => {
    expect(await login()).toMatchObject({ exitCode: 0, stdout: '' })
    await writeFile(join(home, 'a.txt'), 'content')
    expect((await bagfs('put', 'a.txt')).exitCode).toBe(0)
    expect((await bagfs('ls')).stdout).toContain('a.txt')
    expect((await bagfs('get', 'a.txt', '-')).stdout).toBe('content')
    expect((await bagfs('rm', 'a.txt')).exitCode).toBe(0)
  })

  test('keeps profile and token for this user alone', async () => {
    await login('work')
    const tokens = join(home, '.config/bagfs/tokens')
    const [name = ''] = await readdir(tokens)
    for (const path of [config(), join(tokens, name)]) {
      expect((await stat(path)).mode & 0o777).toBe(0o600)
    }
    expect((await stat(join(home, '.config/bagfs'))).mode & 0o777).toBe(0o700)
    expect(await readFile(join(tokens, name), 'utf8')).toBe(`${TOKEN}\n`)
    expect(await readFile(config(), 'utf8')).not.toContain(TOKEN)
  })

  test('with the URL of its API is asked whether that is the URL of the service', async () => {
    const asks = 'Is this the URL of the service itself, without /api?'
    const wrong = `${service.url}/api`
    const refused = await bagfsReading(`${TOKEN}\n`, 'login', 'bad', '--url', wrong)
    expect(refused.stderr).toContain(asks)
    await login('work')
    expect((await bagfs('ls', '--url', wrong, '--token-file', 'none')).stderr).not.toContain(asks)
    variables['BAGFS_TOKEN'] = TOKEN
    expect((await bagfs('ls', '--url', wrong)).stderr).toContain(asks)
  })

  test('is named where its token is gone or refused, and no option that was not typed', async () => {
    await login('work')
    await login('other')
    const tokens = join(home, '.config/bagfs/tokens')
    for (const name of await readdir(tokens)) await writeFile(join(tokens, name), 'a-wrong-token')
    for (const profile of ['work', 'other']) {
      const again = `bagfs login ${profile}`
      const refused = await bagfs('ls', '--profile', profile)
      expect(refused).toMatchObject({ exitCode: 3 })
      expect(refused.stderr).toContain(again)
      expect((await bagfs('doctor', profile)).stdout).toContain(again)
    }
    variables['BAGFS_TOKEN'] = 'another-wrong-token'
    variables['BAGFS_URL'] = service.url
    expect((await bagfs('ls')).stderr).not.toContain('bagfs login')
    await rm(tokens, { recursive: true })
    const gone = await bagfs('ls', '--profile', 'work')
    expect(gone.stderr).toContain(`The token file ${tokens}/work-`)
    expect(gone.stderr).toContain(
      'It had the token of profile work. Log in again: bagfs login work',
    )
    expect(gone.stderr).not.toContain('--token-file')
    expect((await bagfs('doctor', 'other')).stdout).toContain('Log in again: bagfs login other')
  })

  test('with a token that the service refuses keeps nothing', async () => {
    const outcome = await bagfsReading('a-wrong-token', 'login', '--url', service.url)
    expect(outcome.exitCode).toBe(3)
    expect(outcome.stderr).not.toContain('a-wrong-token')
    expect(await readdir(home)).toEqual(['run'])
  })

  test('learns the header that the service takes the token in, and no command asks in the other again', async () => {
    const { url, tries } = await startOtherHeader()
    expect(await bagfsReading(TOKEN, 'login', '--url', url)).toMatchObject({ exitCode: 0 })
    expect(tries).toEqual(['bearer', 'x-authorization'])
    tries.length = 0
    expect(await bagfs('df')).toMatchObject({ exitCode: 0 })
    expect(tries).toEqual(['x-authorization'])
  })

  test('--token-file leaves the token where it is, and refuses one that others can read', async () => {
    await writeFile(join(home, 'mine'), TOKEN, { mode: 0o644 })
    const args = ['login', '--url', service.url, '--token-file', 'mine']
    const refused = await bagfs(...args)
    expect(refused).toMatchObject({ exitCode: 2 })
    expect(refused.stderr).toContain('chmod 600')
    await chmod(join(home, 'mine'), 0o600)
    expect(await bagfs(...args)).toMatchObject({ exitCode: 0 })
    expect(await readFile(config(), 'utf8')).toContain(`token-file: ${join(home, 'mine')}`)
    expect((await bagfs('logout')).stderr).toContain(`The token is still in ${join(home, 'mine')}`)
    expect(await readdir(home)).toContain('mine')
  })

  test('again, with a new token, keeps what a person wrote into the profile', async () => {
    await login('work')
    const text = await readFile(config(), 'utf8')
    await writeFile(
      config(),
      `${text.trimEnd().replace('\n  work:', '\n  work: # mine\n    cache-size: 5GB')}\n`,
    )
    const again = await bagfsReading(OTHER_TOKEN, 'login')
    expect(again).toMatchObject({ exitCode: 0 })
    expect(await readFile(config(), 'utf8')).toMatch(/work:\n {4}# mine\n {4}cache-size: 5GB\n/)
    expect((await bagfs('ls')).exitCode).toBe(0)
  })
})

describe('the keyring of the desktop', () => {
  test('has the token where there is one; no list of processes and no environment has it', async () => {
    const { dir, log } = await installKeyring()
    expect((await login('work')).stderr).toContain('The token is in the keyring of the desktop.')
    expect(await readdir(dir)).toHaveLength(1)
    expect(await readdir(join(home, '.config/bagfs'))).toEqual(['.lock', 'config.yaml'])
    variables['BAGFS_TOKEN'] = OTHER_TOKEN
    expect(await bagfs('ls', '--profile', 'work')).toMatchObject({ exitCode: 0 })
    expect(await log()).toContain('lookup application bagfs')
    expect(await log()).not.toContain(TOKEN)
    expect(await log()).not.toContain(OTHER_TOKEN)
    expect(await bagfs('logout', 'work')).toMatchObject({ exitCode: 0 })
    expect(await readdir(dir)).toEqual([])
  })

  test('that does not answer has not the token: a file has', async () => {
    await installKeyring(false)
    expect((await login()).stderr).toMatch(/The token is in \/.*\/tokens\/default-/)
    expect(await bagfs('ls')).toMatchObject({ exitCode: 0 })
  })

  test('is left alone by --no-keyring, which takes the token out of it', async () => {
    const { dir } = await installKeyring()
    await login()
    expect((await login('--no-keyring')).stderr).toMatch(/The token is in \/.*\/tokens\/default-/)
    expect(await readdir(dir)).toEqual([])
  })

  test('that is locked keeps the token, so that nothing is logged out', async () => {
    const { dir, lock } = await installKeyring()
    await login('work')
    await writeFile(lock, '')
    const locked = await bagfs('logout', 'work')
    expect(locked.stderr).toContain('The token of work could not be taken out of the keyring.')
    expect(locked.stderr).toContain('bagfs login work --no-keyring')
    expect(locked.exitCode).not.toBe(0)
    expect((await bagfs('profiles')).stdout).toContain('work')
    await rm(lock)
    expect(await bagfs('logout', 'work')).toMatchObject({ exitCode: 0 })
    expect(await readdir(dir)).toEqual([])
  })

  test('that has lost the token before lets the person log out', async () => {
    const { dir } = await installKeyring()
    await login('work')
    for (const name of await readdir(dir)) await rm(join(dir, name))
    expect(await bagfs('logout', 'work')).toMatchObject({ exitCode: 0 })
  })

  test('that has lost the token is told with what mends it', async () => {
    const { dir } = await installKeyring()
    await login('work')
    const [name = ''] = await readdir(dir)
    await writeFile(join(dir, name), '')
    const { exitCode, stderr } = await bagfs('ls')
    expect(stderr).toContain('bagfs login work --no-keyring')
    expect(exitCode).toBe(2)
  })
})

describe('several profiles', () => {
  test('are listed, named on the command line, and one of them is the default', async () => {
    await login('work')
    await bagfsReading(OTHER_TOKEN, 'login', 'other', '--url', service.url)
    await writeFile(join(home, 'a.txt'), 'content')
    await bagfs('put', 'a.txt', '--profile', 'other')
    expect((await bagfs('ls')).stdout).toBe('')
    expect((await bagfs('ls', '--profile', 'other')).stdout).toContain('a.txt')
    expect((await bagfs('profiles')).stdout).toMatch(/^\* work .*\n {2}other /)
    expect((await bagfs('profiles', '--default', 'other')).stdout).toMatch(
      /^ {2}work .*\n\* other /,
    )
    expect((await bagfs('ls')).stdout).toContain('a.txt')
    expect((await bagfs('rm', 'a.txt')).exitCode).toBe(0)
    expect((await bagfs('logout')).stderr).toContain('Logged out of other.')
    expect((await bagfs('profiles')).stdout).toMatch(/^\* work /)
    expect((await bagfs('ls', '--profile', 'other')).stderr).toContain('There are: work.')
  })

  test('that are logged in at the same time are all kept, and one of them is the default', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const outcomes = await Promise.all(names.map((name) => login(name, '--no-keyring')))
    expect(outcomes.map(({ exitCode, stderr }) => (exitCode === 0 ? '' : stderr))).toEqual(
      names.map(() => ''),
    )
    const { stdout } = await bagfs('profiles', '--json')
    const rows = JSON.parse(stdout) as { name: string; default: boolean }[]
    expect(rows.map(({ name }) => name).sort()).toEqual(names)
    expect(rows.filter((row) => row.default)).toHaveLength(1)
    expect(await bagfs('profiles', '--default', 'c')).toMatchObject({ exitCode: 0 })
  })

  test('one of them may be the embedded service on this machine', async () => {
    expect((await bagfs('login', '--local')).stderr).toContain('Kept as profile local')
    await writeFile(join(home, 'a.txt'), 'content')
    expect(await bagfs('put', 'a.txt')).toMatchObject({ exitCode: 0 })
    expect((await bagfs('ls')).stdout).toContain('a.txt')
    expect(await bagfs('login', 'second', '--data', 'there')).toMatchObject({ exitCode: 0 })
    expect((await bagfs('ls', '--profile', 'second')).stdout).toBe('')
    expect(await readFile(config(), 'utf8')).toContain(`local: ${join(home, 'there')}`)
  })
})

describe('a config file', () => {
  test('that is broken is told by file and line, and nothing is started', async () => {
    await login('work')
    await writeFile(config(), 'profiles:\n  work:\n    cache-size: 12q\n')
    await mkdir(join(home, 'drive'))
    for (const args of [
      ['mount', 'drive'],
      ['ls'],
      ['login'],
      ['logout'],
      ['profiles'],
      ['config'],
    ]) {
      const { exitCode, stderr } = await bagfs(...args)
      expect(stderr).toContain(`bagfs: ${config()}:3: cache-size: "12q" is not a size.`)
      expect(exitCode).toBe(2)
    }
    expect(await readFile(config(), 'utf8')).toContain('12q')
  })

  test('that others can change is refused with the command that mends it', async () => {
    await login('work')
    await chmod(config(), 0o666)
    const { exitCode, stderr } = await bagfs('ls')
    expect(stderr).toContain(`chmod go-w ${config()}`)
    expect(exitCode).toBe(2)
  })

  test('shows the value of each option and where it comes from, and never the token', async () => {
    await login('work')
    await writeFile(
      config(),
      (await readFile(config(), 'utf8')).trimEnd() + '\n    min-free: 2GB\n',
    )
    variables['BAGFS_CACHE_SIZE'] = '5GB'
    const { stdout, stderr } = await bagfs('config')
    expect(stderr).toBe(`Profile: work. File: ${config()}\n`)
    expect(stdout).toMatch(/^cache-size +5GB +BAGFS_CACHE_SIZE$/m)
    expect(stdout).toMatch(/^min-free +2GB +profile work, line \d+$/m)
    expect(stdout).toMatch(/^timeout +10s +default$/m)
    variables['XDG_STATE_HOME'] = '/var/elsewhere'
    expect((await bagfs('config')).stdout).toMatch(/^state-dir +\/var\/elsewhere\/bagfs +default$/m)
    expect(stdout).toMatch(/^token +kept +\/.*\/tokens\/work-/m)
    variables['BAGFS_TOKEN'] = OTHER_TOKEN
    const json = await bagfs('config', '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ profile: 'work' })
    expect(json.stdout).toContain('BAGFS_TOKEN')
    expect(json.stdout + stdout).not.toContain(TOKEN)
    expect(json.stdout).not.toContain(OTHER_TOKEN)
  })
})

test('a login without the keyring is the way out where that stays locked', async () => {
  const { lock } = await installKeyring()
  await login('work')
  await writeFile(lock, '')
  expect(await login('work', '--no-keyring')).toMatchObject({ exitCode: 0 })
  expect(await bagfs('logout', 'work')).toMatchObject({ exitCode: 0 })
})

test('without an account no directory is made for a mount, which says how to log in', async () => {
  const { stderr, exitCode } = await bagfs('mount', 'new/drive')
  expect(stderr).toContain('Log in once: bagfs login')
  expect(stderr).not.toContain('mkdir')
  expect(exitCode).toBe(2)
  const { shown } = await atTerminal('mount', 'new/drive').end()
  expect(shown).toContain('Log in once: bagfs login')
  expect(shown).not.toContain('Make it?')
})

test('a mountpoint that is not there is made when the person at the terminal says so', async () => {
  await login()
  const terminal = atTerminal('mount', 'new/drive')
  await terminal.answer(`${join(home, 'new/drive')} does not exist. Make it? [Y/n]`, 'n\r')
  const { exitCode, shown } = await terminal.end()
  expect(shown).toContain(`mkdir -p ${join(home, 'new/drive')}`)
  expect(exitCode).toBe(2)
  const { stderr } = await bagfs('mount', 'new/drive')
  expect(stderr).toContain(`mkdir -p ${join(home, 'new/drive')}`)
})

test.each([
  [['lgoin'], 'Did you mean login?'],
  [['mount', '--cach-size', '1GB', '.'], 'Did you mean --cache-size?'],
])('%j is told the nearest one', async (args, words) => {
  expect((await bagfs(...args)).stderr).toContain(words)
})
