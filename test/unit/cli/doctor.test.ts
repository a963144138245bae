import { createServer } from 'node:http'
import { once } from 'node:events'
import { chmod, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Check } from '../../../src/cli/doctor/check.ts'
import { describeKernel, describePassthrough } from '../../../src/cli/doctor/machine.ts'
import { judgeLag } from '../../../src/cli/doctor/seen.ts'
import { judgeRoom } from '../../../src/cli/doctor/state-directory.ts'
import { DriveRegistry } from '../../../src/control/registry.ts'
import { canMount } from '../../support/fuse.ts'
import { BuiltProgram, type Outcome } from './built-program.ts'

const TOKEN = 'a-token-of-this-test-0123456789'

let program: BuiltProgram
let home = ''
let counter = 0
let variables: Record<string, string> = {}

beforeAll(async () => {
  program = await BuiltProgram.build()
}, 120_000)

afterAll(() => program.remove())

beforeEach(async () => {
  counter += 1
  home = join(program.directory, `home-${counter}`)
  await mkdir(join(home, 'run'), { recursive: true, mode: 0o700 })
  variables = { HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), BAGFS_TOKEN: TOKEN }
})

const bagfs = (...args: string[]): Promise<Outcome> => program.run(args, { cwd: home, variables })

interface Doctor {
  readonly exitCode: number | null
  /** The first check of a name. */
  readonly of: (name: string) => Check | undefined
}

async function doctor(...args: string[]): Promise<Doctor> {
  const { stdout, exitCode } = await bagfs('doctor', '--json', ...args)
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: readonly Check[] }
  const failures = checks.filter(({ state }) => state === 'failure')
  expect({ ok, exitCode }).toEqual(
    failures.length === 0 ? { ok: true, exitCode: 0 } : { ok: false, exitCode: 1 },
  )
  return { exitCode, of: (name) => checks.find((check) => check.name === name) }
}

interface ServiceTraits {
  readonly token?: string
  readonly clockAheadMs?: number
  readonly ranges?: boolean
  readonly lengths?: boolean
}

/** A service with one bag of ten bytes. */
async function startService(traits: ServiceTraits = {}): Promise<string> {
  const { token = TOKEN, clockAheadMs = 0, ranges = true, lengths = true } = traits
  const content = '0123456789'
  const server = createServer(({ headers, url }, response) => {
    response.setHeader('date', new Date(Date.now() + clockAheadMs).toUTCString())
    const json = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    if (headers.authorization !== `Bearer ${token}`) {
      json(401, { detail: [{ loc: ['header'], msg: 'no such token', type: 'validation_error' }] })
    } else if (url === '/api/user') {
      json(200, { uid: 'me', space_left: 5e8, capacity: 1e9 })
    } else if (url === '/api/user/files_list') {
      const file = { filename: 'a.txt', size: 10, uploaded_at: 1, description: '', bag_id: 'bag' }
      json(200, [file])
    } else if (ranges && headers.range === 'bytes=1-1') {
      response.writeHead(206, { 'content-range': 'bytes 1-1/10', 'content-length': '1' }).end('1')
    } else {
      response.writeHead(200, lengths ? { 'content-length': '10' } : {}).end(content)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  variables['BAGFS_URL'] = url
  return url
}

describe('bagfs doctor', () => {
  test('tells in a line each that all is well, with an account', async () => {
    await startService()
    const { stdout } = await bagfs('doctor')
    for (const name of ['kernel', 'bridge', 'native library', 'state directory', 'local disk']) {
      expect(stdout).toMatch(new RegExp(`^ok +${name} `, 'm'))
    }
    expect(stdout).toMatch(/^ok +account +http:\/\/127\.0\.0\.1:\d+$/m)
    expect(stdout).toMatch(/^ok +token +taken: account me, 500 MB of 1\.0 GB left$/m)
    for (const name of ['service', 'clock', 'listing', 'ranges', 'lengths']) {
      expect(stdout).toMatch(new RegExp(`^ok +${name} `, 'm'))
    }
    expect(stdout).not.toContain(TOKEN)
  })

  test.runIf(canMount())('ends with 0 where a mount would work', async () => {
    await startService()
    const { exitCode, stderr, stdout } = await bagfs('doctor')
    // A drive that another test kills at this moment is one of the same user.
    const failures = stdout.split('\n').filter((line) => /^failure +(?!drive )\S/.test(line))
    expect(failures).toEqual([])
    expect(exitCode).toBe(stdout.includes('failure ') ? 1 : 0)
    expect(stderr).toMatch(stdout.includes('failure ') ? /failure/ : /^All is well\.\n$/)
  })

  test('says how to log in where there is no account', async () => {
    const { of, exitCode } = await doctor()
    expect(of('account')).toMatchObject({
      state: 'failure',
      mend: expect.stringContaining('bagfs login') as string,
    })
    expect(exitCode).toBe(1)
  })

  test('tells a service that is away from a token that is refused', async () => {
    variables['BAGFS_URL'] = 'http://127.0.0.1:9'
    const away = await doctor()
    expect(away.of('service')).toMatchObject({
      state: 'failure',
      says: expect.stringContaining('nothing answers at that address') as string,
      mend: 'Check the URL of the service and the network.',
    })
    expect(away.of('token')).toBeUndefined()
    await startService({ token: 'another-token-of-this-test' })
    const refused = await doctor()
    expect(refused.of('service')).toMatchObject({ state: 'ok' })
    expect(refused.of('token')).toMatchObject({
      state: 'failure',
      mend: expect.stringContaining('token') as string,
    })
  })

  test.each([
    [3_600_000, /^The clock of this machine is 3\d{3} s behind that of the service\.$/],
    [-3_600_000, /^The clock of this machine is 3\d{3} s ahead of that of the service\.$/],
  ])('warns of a clock that is off by %i ms', async (clockAheadMs, says) => {
    await startService({ clockAheadMs })
    const check = (await doctor()).of('clock')
    expect(check?.says).toMatch(says)
    expect(check).toMatchObject({ state: 'warning', mend: expect.any(String) as string })
  })

  test('warns of a service that knows neither ranges nor lengths', async () => {
    await startService({ ranges: false, lengths: false })
    const { of } = await doctor()
    expect([of('ranges')?.state, of('lengths')?.state]).toEqual(['warning', 'warning'])
  })

  test.each([
    ['is not known yet', {}, 'ok', /^not known yet/],
    ['is none', { lagMs: 0 }, 'ok', /^none/],
    ['is shorter than what is waited for', { lagMs: 3_000 }, 'ok', /up to 3 s later$/],
    ['is longer', { lagMs: 20_000 }, 'warning', /up to 20 s later, and .* 15 s only/],
  ])('tells how late the listing is: it %s', (_, listing, state, says) => {
    const check = judgeLag(listing, 15_000)
    expect(check).toMatchObject({ state, says: expect.stringMatching(says) as string })
    expect(check.mend).toBe(
      state === 'ok' ? undefined : 'Mount with a longer time: --listing-lag 40s',
    )
  })

  test('warns of a token that goes over a network in the clear', async () => {
    variables['BAGFS_URL'] = 'http://no-such-host.invalid'
    expect((await doctor()).of('account')).toMatchObject({
      state: 'warning',
      says: expect.stringContaining('is not encrypted') as string,
    })
  })

  test('tells what the mount tells of what the bridge lacks', async () => {
    await mkdir(join(home, 'drive'))
    Object.assign(variables, { BAGFS_BRIDGE: 'fuse-native', PATH: join(home, 'empty') })
    const check = (await doctor()).of('fusermount')
    expect(check).toEqual({
      name: 'fusermount',
      state: 'failure',
      says: 'The program fusermount is missing.',
      mend: 'On Debian and Ubuntu: sudo apt-get install fuse3',
    })
    if (!canMount()) return
    const { stderr } = await bagfs('mount', 'drive')
    expect(stderr).toBe(`bagfs: ${check?.says ?? ''}\n  ${check?.mend ?? ''}\n`)
  })

  test('refuses the state directory that the mount refuses, with the command that mends it', async () => {
    const path = join(home, 'state')
    await mkdir(path)
    await chmod(path, 0o777)
    variables['BAGFS_STATE_DIR'] = path
    const check = (await doctor()).of('state directory')
    expect(check).toMatchObject({ state: 'failure' })
    const [, command = ''] = /(chmod \S+ \S+)\. /.exec(check?.mend ?? '') ?? []
    execFileSync('sh', ['-c', command])
    expect((await doctor()).of('state directory')).toMatchObject({ state: 'ok', says: path })
  })

  test('warns where the cache keeps nothing for want of room', async () => {
    variables['BAGFS_MIN_FREE'] = '900TB'
    expect((await doctor()).of('local disk')).toMatchObject({ state: 'warning' })
    const files = 1e6
    expect(judgeRoom('/x', { bytes: 4096, files }, 0)).toMatchObject({ state: 'failure' })
    expect(judgeRoom('/x', { bytes: 2e9, files }, 1e9)).toBe('2.0 GB are free')
    expect(judgeRoom('/x', { bytes: 2e9, files: 9 }, 1e9)).toMatchObject({
      state: 'failure',
      says: '2.0 GB are free, for 9 files more: nothing can be written.',
    })
  })

  test('tells where the config file is broken, and looks at the machine all the same', async () => {
    await mkdir(join(home, '.config/bagfs'), { recursive: true, mode: 0o700 })
    await writeFile(join(home, '.config/bagfs/config.yaml'), 'default: [', { mode: 0o600 })
    const { of } = await doctor()
    expect(of('config')).toMatchObject({
      state: 'failure',
      says: expect.stringContaining('config.yaml') as string,
    })
    expect(of('kernel')).toBeDefined()
  })

  test('tells of the socket of a drive that was killed, until the command is run that mends it', async () => {
    const socketPath = join(home, 'run/bagfs/1.sock')
    const drive = { mountpoint: '/no/such/drive', socketPath, pid: 1 }
    await new DriveRegistry([join(home, 'run/bagfs')]).add(drive)
    await writeFile(socketPath, '')
    const check = (await doctor()).of('drive')
    expect(check).toMatchObject({
      state: 'warning',
      says: expect.stringContaining('/no/such/drive: its process was killed') as string,
    })
    execFileSync('sh', ['-c', check?.mend ?? ''])
    expect((await doctor()).of('drive')?.says).not.toContain('/no/such/drive')
    await expect(stat(socketPath)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('tells whether the kernel would read cached files by itself', () => {
    const best = {
      bridge: 'dev-fuse',
      release: '6.18.1-generic',
      isRoot: true,
      asked: 'auto',
    } as const
    const says = (other: Partial<Parameters<typeof describePassthrough>[0]>): string =>
      describePassthrough({ ...best, ...other })
    expect(says({})).toBe('for drives that are mounted with --read-only')
    expect(says({ release: '6.8.12' })).toBe('none: it comes with Linux 6.9')
    expect(says({ isRoot: false })).toBe('none: only root may have it')
    expect(says({ bridge: 'fuse-native' })).toBe('none: only --bridge dev-fuse has it')
    expect(says({ asked: 'off' })).toBe('off, as asked for')
  })

  test('warns of a kernel that may be too old', () => {
    const kernel = (release: string) => describeKernel({ name: 'Linux', release, arch: 'x64' })
    expect(kernel('4.19.0-21-amd64')).toMatchObject({ state: 'warning' })
    expect(kernel('5.1.9')).toMatchObject({ state: 'warning' })
    expect(kernel('5.2.0')).toContain('Linux 5.2.0')
    expect(kernel('6.1.0-13-amd64')).toContain('6.1.0-13-amd64')
    expect(describeKernel({ name: 'Darwin', release: '23.0', arch: 'arm64' })).toMatchObject({
      state: 'warning',
    })
  })
})

describe('the report of bagfs doctor', () => {
  const OTHER = 'other"token\\of-this-test'
  const report = (): string => join(home, 'report.txt')

  beforeEach(async () => {
    const url = await startService()
    const config = join(home, '.config/bagfs')
    await mkdir(config, { recursive: true, mode: 0o700 })
    await writeFile(join(config, 'other'), OTHER, { mode: 0o600 })
    const profile = `profiles:\n  other:\n    url: ${url}\n    token-file: ${join(config, 'other')}\n`
    await writeFile(join(config, 'config.yaml'), profile, { mode: 0o600 })
    const logs = join(home, '.local/state/bagfs/logs')
    await mkdir(logs, { recursive: true, mode: 0o700 })
    const lines = [
      `cut off ${TOKEN}`,
      `fill ${'x'.repeat(64 * 1024 - 60)}`,
      `Bearer ${TOKEN}`,
      JSON.stringify({ token: OTHER }),
      `it said ${OTHER}`,
      'the last line',
    ]
    await writeFile(join(logs, 'drive.log'), lines.join('\n'))
  })

  test('has the lines, the options and the logs, and no token of any account', async () => {
    const { stdout, stderr } = await bagfs('doctor', '--bundle', report())
    expect(stderr).toContain(`Report: ${report()}`)
    const text = await readFile(report(), 'utf8')
    expect(text).toContain(stdout.trimEnd())
    expect(text).toMatch(/^cache-size +10GB +default$/m)
    expect(text).toMatch(/^token +set +BAGFS_TOKEN$/m)
    expect(text).toContain('the last line')
    expect(text).toContain('it said [hidden]')
    for (const secret of [TOKEN, TOKEN.slice(-12), OTHER, 'other\\"token', 'of-this-test']) {
      expect(text).not.toContain(secret)
    }
    expect((await stat(report())).mode & 0o777).toBe(0o600)
  })

  test('is written also where the JSON is wanted, and over no file that is there', async () => {
    expect((await bagfs('doctor', '--json', '--bundle', report())).stdout).toMatch(/^\{/)
    await writeFile(report(), 'mine')
    const { exitCode, stderr } = await bagfs('doctor', '--bundle', report())
    expect(stderr).toContain('report.txt is there already.')
    expect(exitCode).toBe(1)
    expect(await readFile(report(), 'utf8')).toBe('mine')
    await rm(report())
  })
})
