import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
// The service is in this process: what waits for it must not hold this process up.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS, OTHER_TOKEN, type Outcome } from '../support/mounted-drive.ts'
import { PROGRAM, TOKEN } from '../support/service-process.ts'
import { Terminal } from '../support/terminal.ts'

let bench: Bench
let mounted: string[]

beforeEach(async () => {
  bench = await Bench.start()
  mounted = []
})

afterEach(async () => {
  await bench.service.proxy.up()
  for (const mountpoint of mounted) await bagfs('umount', '--now', mountpoint)
  await bench.close()
})

/** All that bagfs keeps for this person is in the directory of the bench. */
const variables = (): Record<string, string> => ({
  HOME: bench.dir,
  XDG_RUNTIME_DIR: bench.dir,
  XDG_STATE_HOME: bench.dir,
  XDG_DATA_HOME: bench.dir,
  XDG_CONFIG_HOME: bench.dir,
})

const config = (): string => join(bench.dir, 'bagfs/config.yaml')

const bagfs = (...args: readonly string[]): Promise<Outcome> =>
  bench.bagfs(args, { env: variables() })

async function mount(target: string, mountpoint = join(bench.dir, target)): Promise<Outcome> {
  mkdirSync(mountpoint, { recursive: true })
  mounted.push(mountpoint)
  return bagfs('mount', target.includes(':') ? target : mountpoint)
}

async function login(name: string, token = TOKEN): Promise<void> {
  const args = [PROGRAM, 'login', name, '--url', bench.service.proxy.url]
  const options = { input: token, env: variables(), reject: false, timeout: HANGING_MS }
  const { exitCode, stderr } = await execa(process.execPath, args, options)
  expect(stderr).toContain(`Kept as profile ${name}`)
  expect(exitCode).toBe(0)
}

/** Adds lines to a profile, as a person does with an editor. */
function write(name: string, ...lines: readonly string[]): void {
  const text = readFileSync(config(), 'utf8')
  const added = ['min-free: 1MB', ...lines].map((line) => `    ${line}\n`).join('')
  writeFileSync(config(), text.replace(`  ${name}:\n`, `  ${name}:\n${added}`))
}

const status = async (mountpoint: string): Promise<Record<string, unknown>> =>
  JSON.parse((await bagfs('status', '--json', mountpoint)).stdout) as Record<string, unknown>

describe.runIf(canMount())('an account that was logged in once', () => {
  it('is mounted without a flag, as its profile says; what is typed goes before that', async () => {
    await login('work')
    write('work', 'write-back: true')
    const drive = join(bench.dir, 'drive')
    expect(await mount('drive')).toMatchObject({ code: 0 })
    expect(await status(drive)).toMatchObject({ mode: 'back' })
    expect(await bagfs('umount', drive)).toMatchObject({ code: 0 })
    expect((await bagfs('mount', drive, '--no-write-back')).code).toBe(0)
    expect(await status(drive)).toMatchObject({ mode: 'through' })
    await writeFile(join(drive, 'a.txt'), 'content')
    expect((await bagfs('ls')).stdout).toContain('a.txt')
  })

  it('is the name of its drive for every command, and paths in it begin with the name', async () => {
    await login('work')
    const drive = join(bench.dir, 'drive')
    expect(await mount('work:drive', drive)).toMatchObject({ code: 2 })
    expect(await mount(`work:${drive}`, drive)).toMatchObject({ code: 0 })
    await writeFile(join(drive, 'it is.txt'), 'content')
    expect((await bagfs('status', 'work')).stdout).toMatch(
      new RegExp(`^Drive:    ${drive} .*\nProfile:  work\n`),
    )
    expect(await bagfs('sync', 'work:it is.txt')).toMatchObject({ code: 0 })
    expect(await bagfs('sync', `work:${drive}/it is.txt`)).toMatchObject({ code: 0 })
    expect((await bagfs('explain', 'work:it is.txt')).stdout).toContain(`${drive}/it is.txt (file`)
    expect(await bagfs('explain', 'work:gone.txt')).toMatchObject({ code: 4 })
    expect((await bagfs('log', 'work')).code).toBe(0)
    expect((await bagfs('metrics', 'work:')).stdout).toContain('bagfs_')
    expect((await bagfs('cache', 'stats', 'work')).stdout).toContain(drive)
    expect((await bagfs('pin', 'work:it is.txt')).stdout).toContain('it is.txt: pinned')
    expect((await bagfs('pin', '--list', 'work')).stdout).toContain('it is.txt')
    expect((await bagfs('refresh', 'work')).stdout).toContain(`${drive}: 1 bag`)
    await rm(join(drive, 'it is.txt'))
    expect((await bagfs('trash', 'work')).stdout).toContain('it is.txt')
    const told = await bagfs('explain', 'work:it is.txt')
    const [, command = ''] =
      /To do: {4}bagfs (trash restore work: [0-9a-f]+)/.exec(told.stdout) ?? []
    expect(await bagfs(...command.split(' '))).toMatchObject({ code: 0 })
    expect((await bagfs('outbox', 'work')).stderr).toContain(drive)
    const other = await bagfs('umount', `other:${drive}`)
    expect(other).toMatchObject({ code: 2 })
    expect(await bagfs('umount', 'work')).toMatchObject({ code: 0 })
    expect((await bagfs('trash', 'list', 'work')).stderr).toContain('The trash is empty.')
    expect((await bagfs('umount', 'work')).stderr).toContain(`${drive} has no bagfs drive on it.`)
  })

  it('is named where several have what is to be restored, emptied or discarded', async () => {
    await login('work')
    await login('other', OTHER_TOKEN)
    const drives = ['work', 'other'].map((name) => join(bench.dir, `drive-${name}`))
    for (const [index, name] of ['work', 'other'].entries()) {
      write(name, 'write-back: true')
      const drive = drives[index] ?? ''
      expect(await mount(`${name}:${drive}`, drive)).toMatchObject({ code: 0 })
      await writeFile(join(drive, 'report.txt'), name)
      expect((await bagfs('sync', drive)).code).toBe(0)
      await rm(join(drive, 'report.txt'))
      expect((await bagfs('sync', drive)).code).toBe(0)
    }
    const refused = async (args: readonly string[], room: string): Promise<string> => {
      const { code, stderr } = await bagfs(...args)
      expect(code).toBe(2)
      for (const drive of drives) expect(stderr).toContain(drive)
      expect(stderr).toContain(`is in more than one ${room}: `)
      return stderr
    }
    expect(await refused(['trash', 'restore', 'report.txt'], 'trash')).toMatch(
      /as in bagfs trash restore (?:work|other): report\.txt, or give its id/,
    )
    await refused(['trash', 'empty', 'report.txt', '--yes'], 'trash')
    expect((await bagfs('trash')).stdout.match(/report\.txt/g)).toHaveLength(2)
    expect((await bagfs('trash', 'restore', 'work:', 'report.txt')).code).toBe(0)
    expect(await readFile(join(drives[0] ?? '', 'report.txt'), 'utf8')).toBe('work')
    expect((await bagfs('trash', 'empty', 'report.txt', '--yes')).code).toBe(0)
    await bagfs('sync')
    await bench.service.proxy.down()
    for (const drive of drives) await writeFile(join(drive, 'waits.txt'), drive)
    await refused(['outbox', 'discard', 'waits.txt', '--yes'], 'outbox')
    expect((await bagfs('outbox')).stdout.match(/waits\.txt.*$/gm)).toHaveLength(2)
    // It is refused while a try is under way.
    const discarded = async (...words: readonly string[]): Promise<void> => {
      const discard = async () => (await bagfs('outbox', 'discard', ...words, '--yes')).code
      await expect.poll(discard).toBe(0)
    }
    await discarded('work:', 'waits.txt')
    expect((await bagfs('outbox', 'other')).stdout).toContain('waits.txt')
    await discarded('waits.txt')
  })

  it('is mounted again after a kill by the command that is told then, with what was typed before', async () => {
    await login('work')
    write('work')
    const drive = join(bench.dir, 'drive')
    mounted.push(drive)
    expect((await bagfs('mount', '--umask', '077', `work:${drive}`)).code).toBe(0)
    process.kill(Number((await status(drive))['pid']), 'SIGKILL')
    const told = `bagfs mount work:${drive} --umask=077`
    await expect
      .poll(async () => (await bagfs('log', 'work')).stderr)
      .toBe(`The drive ended without leaving. Mount it again: ${told}`)
    expect((await bagfs('status', 'work')).stdout).toContain(`To do:    ${told}`)
    expect((await bagfs('explain', 'work:a.txt')).stderr).toContain(`Mount it again: ${told}`)
    expect((await bagfs(...told.split(' ').slice(1))).code).toBe(0)
    expect(await status(drive)).toMatchObject({ profile: 'work' })
  })

  it('is mounted by its name beside others, and never shows its token', async () => {
    await login('work')
    await login('other', OTHER_TOKEN)
    write('work')
    write('other')
    const [one, two] = [join(bench.dir, 'one'), join(bench.dir, 'two')]
    expect(await mount(`work:${one}`, one)).toMatchObject({ code: 0 })
    expect(await mount(`other:${two}`, two)).toMatchObject({ code: 0 })
    await writeFile(join(one, 'of-work.txt'), 'content')
    expect(await readdir(two)).toEqual([])
    for (const mountpoint of [one, two]) {
      const { pid } = await status(mountpoint)
      for (const file of ['cmdline', 'environ']) {
        const text = readFileSync(`/proc/${String(pid)}/${file}`, 'utf8')
        expect(text).not.toContain(TOKEN)
        expect(text).not.toContain(OTHER_TOKEN)
      }
    }
    for (const name of readdirSync(join(bench.dir, 'bagfs/logs'))) {
      const log = readFileSync(join(bench.dir, 'bagfs/logs', name), 'utf8')
      expect(log).not.toContain(TOKEN)
      expect(log).not.toContain(OTHER_TOKEN)
    }
  })

  it.each([
    ['logged in', (text: string) => text],
    ['written by hand', (text: string) => text.replace(/\n\s+account: .*/, '')],
  ])('that was %s is not logged out while it is in use, unless by force', async (_, change) => {
    await login('work')
    writeFileSync(config(), change(readFileSync(config(), 'utf8')))
    const stateDir = join(bench.dir, 'own-state')
    write('work', 'write-back: true', `state-dir: ${stateDir}`)
    const drive = join(bench.dir, 'drive')
    await mount('drive')
    await bench.service.proxy.down()
    await writeFile(join(drive, 'waits.txt'), 'content')
    const first = await bagfs('logout')
    expect(first.stderr).toContain(`A drive is mounted at ${drive}.`)
    expect(first.stderr).toContain('1 change waits to be sent (waits.txt).')
    expect(first.code).toBe(7)
    expect(first.stderr).toContain(`bagfs umount ${drive} waits until all is stored`)
    expect((await bagfs('umount', '--now', drive)).code).toBe(0)
    const second = await bagfs('logout', 'work')
    expect(second.stderr).not.toContain('A drive is mounted')
    expect(second.stderr).toContain('1 change waits to be sent (waits.txt).')
    expect(second.stderr).toContain('bagfs mount work:MOUNTPOINT sends what waits')
    expect(second.code).toBe(7)
    expect((await bagfs('outbox')).stdout).toContain('waits.txt')
    const forced = await bagfs('logout', 'work', '--force')
    expect(forced.stderr).toContain(`They are kept in ${stateDir}/`)
    expect(forced.code).toBe(0)
    await bench.service.proxy.up()
    await login('work')
    const args = ['--min-free', '1MB', '--state-dir', stateDir]
    expect((await bagfs('mount', drive, ...args)).code).toBe(0)
    expect((await bagfs('umount', drive)).code).toBe(0)
    expect(await bench.service.contents()).toEqual({ 'waits.txt': 'content' })
  })

  it('that has no drive of its own is told the one of its account, which ends by that command', async () => {
    await login('work')
    await login('other')
    write('work')
    const drive = join(bench.dir, 'drive')
    expect(await mount(`work:${drive}`, drive)).toMatchObject({ code: 0 })
    const refused = await bagfs('logout', 'other')
    expect(refused.code).toBe(7)
    const told = Array.from(refused.stderr.matchAll(/bagfs ((?:outbox|umount) \S+)/g))
    expect(told.map(([, command]) => command)).toEqual([`umount ${drive}`, `outbox ${drive}`])
    for (const [, command = ''] of told.reverse()) {
      expect(await bagfs(...command.split(' '))).toMatchObject({ code: 0 })
    }
    expect(await bagfs('logout', 'other')).toMatchObject({ code: 0 })
  })

  it('goes into the menu of the desktop by its name, with the place of its drive', async () => {
    await login('work')
    await login('other', OTHER_TOKEN)
    write('other')
    const none = await bagfs('desktop', 'install', 'other')
    expect(none.stderr).toContain('No drive of the profile other is mounted.')
    expect(none.stderr).toContain('bagfs desktop install other:MOUNTPOINT')
    expect(none.code).toBe(2)
    const drive = join(bench.dir, 'drive')
    await mount(`other:${drive}`, drive)
    const installed = await bagfs('desktop', 'install', 'other')
    expect(installed.stderr).toContain(`In the menu as "other (bagfs)", which mounts ${drive}:`)
    expect(installed.code).toBe(0)
  })

  it('does not become another account while a drive is mounted', async () => {
    await login('work')
    write('work')
    await mount('drive')
    const args = [PROGRAM, 'login', 'work', '--url', bench.service.proxy.url]
    const options = { input: OTHER_TOKEN, env: variables(), reject: false, timeout: HANGING_MS }
    const before = readFileSync(config(), 'utf8')
    const { exitCode, stderr } = await execa(process.execPath, args, options)
    expect(stderr).toContain('Profile work is in use for another account. A drive is mounted at')
    expect(exitCode).toBe(7)
    expect(readFileSync(config(), 'utf8')).toBe(before)
    await login('work')
  })
})

describe.runIf(canMount())('the account of the embedded service', () => {
  it('is a profile like any other: commands work beside its drive, and without one', async () => {
    expect((await bagfs('login', '--local')).code).toBe(0)
    write('local')
    const drive = join(bench.dir, 'drive')
    expect(await mount('drive')).toMatchObject({ code: 0 })
    await writeFile(join(drive, 'a.txt'), 'content')
    expect((await bagfs('ls')).stdout).toContain('a.txt')
    expect((await bagfs('umount', drive)).code).toBe(0)
    expect((await bagfs('get', 'a.txt', '-')).stdout).toBe('content')
  })
})

describe.runIf(canMount())('a mountpoint that is not there', () => {
  it('is made when the person at the terminal wants it', async () => {
    await login('work')
    write('work')
    const drive = join(bench.dir, 'new/drive')
    mounted.push(drive)
    const terminal = Terminal.start([process.execPath, PROGRAM, 'mount', drive], {
      cwd: process.cwd(),
      env: { ...process.env, ...variables() },
    })
    await terminal.answer(`${drive} does not exist. Make it? [Y/n]`, '\r')
    const { exitCode, shown } = await terminal.end()
    expect(shown).toContain(`Mounted at ${drive}.`)
    expect(exitCode).toBe(0)
    expect(await readdir(drive)).toEqual([])
  })
})
