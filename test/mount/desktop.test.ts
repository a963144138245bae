import { mkdirSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { hasProgram } from '../support/has-program.ts'
import { Bench, HANGING_MS, type Outcome } from '../support/mounted-drive.ts'
import { TOKEN } from '../support/service-process.ts'

let bench: Bench

beforeEach(async () => {
  bench = await Bench.start({ isHome: true })
  await bagfs('login', 'work', '--url', bench.service.proxy.url, '--token-file', tokenFile())
})

afterEach(() => bench.close())

/** A home of its own, in which the drive lies; no session of a desktop beside it. */
const variables = (): Record<string, string> => ({
  HOME: bench.dir,
  XDG_CONFIG_HOME: join(bench.dir, 'config'),
  DBUS_SESSION_BUS_ADDRESS: '',
})

const bagfs = (...args: readonly string[]): Promise<Outcome> =>
  bench.bagfs(args, { env: variables() })

function tokenFile(): string {
  const path = join(bench.dir, 'token')
  writeFileSync(path, TOKEN, { mode: 0o600 })
  return path
}

/** GIO, by which Thunar, PCManFM and Nautilus list mounts, copy, rename and delete. */
async function gio(...args: readonly string[]): Promise<Outcome> {
  const { exitCode, stdout, stderr } = await execa('gio', args, {
    cwd: bench.mountpoint,
    env: variables(),
    timeout: HANGING_MS,
    reject: false,
  })
  return { code: exitCode, stdout, stderr }
}

async function mount(...args: readonly string[]): Promise<void> {
  const mounted = await bagfs('mount', `work:${bench.mountpoint}`, '--min-free', '1MB', ...args)
  expect(mounted).toMatchObject({ code: 0 })
}

const inDrive = (name: string): string => join(bench.mountpoint, name)

/** The service is in this process: nothing may wait here for the drive. */
const read = (path: string): Promise<string> => readFile(path, 'utf8')

describe.runIf(canMount())('a drive on a desktop', () => {
  it('is a place of its own in file managers, by the name of its account', async () => {
    await mount()
    expect(await read(inDrive('.xdg-volume-info'))).toBe(
      '[Volume Info]\nName=work\nIcon=folder-remote\n',
    )
    if (!hasProgram('gio')) return
    const { stdout } = await gio('mount', '--list')
    expect(stdout).toContain(`drive -> file://${bench.mountpoint}`)
    expect((await gio('list', '--hidden')).stdout).toBe('')
  })

  it('of no profile has the name of its directory', async () => {
    await bagfs('logout', 'work')
    await bench.mount()
    expect(await read(inDrive('.xdg-volume-info'))).not.toContain('Name=')
  })

  it("tells its name and icon only where the account has no such file, and says that they are the drive's", async () => {
    await mount('--listing-ttl', '10m')
    const path = inDrive('.xdg-volume-info')
    expect((await bagfs('explain', path)).stdout).toContain('the name and the icon of the drive')
    await bench.service.upload('.xdg-volume-info', '[Volume Info]\nName=Mine\n')
    await bagfs('refresh', bench.mountpoint)
    await expect.poll(() => read(path)).toContain('Name=Mine')
    expect((await bagfs('explain', path)).stdout).toContain('at the service')
  })

  it('takes what file managers do: copy in and out, new folder, rename, delete', async () => {
    if (!hasProgram('gio')) return
    await mount()
    const outside = join(bench.dir, 'letter.txt')
    writeFileSync(outside, 'Dear reader\n')
    mkdirSync(join(bench.dir, 'out'))
    for (const [command, ...args] of [
      ['copy', outside, bench.mountpoint],
      ['rename', 'letter.txt', 'Letter to all.txt'],
      ['copy', 'Letter to all.txt', join(bench.dir, 'out')],
      ['mkdir', 'New Folder'],
      ['move', 'Letter to all.txt', 'New Folder'],
      ['copy', outside, 'second.txt'],
      ['remove', 'second.txt'],
    ] as const) {
      expect(await gio(command, ...args)).toMatchObject({ code: 0 })
    }
    expect(await read(join(bench.dir, 'out/Letter to all.txt'))).toBe('Dear reader\n')
    expect(await read(inDrive('New Folder/Letter to all.txt'))).toBe('Dear reader\n')
    await bagfs('sync', bench.mountpoint)
    expect((await bench.service.list()).map(({ filename }) => filename)).toEqual(['New Folder'])
  })

  it('has no trash of a desktop: the file stays, and a file manager offers to delete it for good', async () => {
    if (!hasProgram('gio')) return
    await mount()
    await writeFile(inDrive('a.txt'), 'content')
    const trashed = await gio('trash', 'a.txt')
    expect(trashed.code).toBe(1)
    expect(trashed.stderr).toContain('Unable to find or create trash directory')
    expect((await gio('list', '--hidden')).stdout).toBe('a.txt')
  })

  it('is mounted and opened by a click in the menu, and unmounted by another one', async () => {
    const opened = join(bench.dir, 'opened')
    const bin = join(bench.dir, 'bin')
    mkdirSync(bin)
    const script = `#!/bin/sh\nprintf %s "$1" >> '${opened}'\n`
    writeFileSync(join(bin, 'xdg-open'), script, { mode: 0o755 })
    const env = {
      ...variables(),
      ...{ XDG_DATA_HOME: join(bench.dir, 'data'), XDG_STATE_HOME: bench.dir },
      ...{ XDG_RUNTIME_DIR: bench.dir, BAGFS_MIN_FREE: '1MB' },
      PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    }
    const desktop = (...args: readonly string[]): Promise<Outcome> =>
      bench.bagfs(['desktop', ...args], { env })
    await desktop('install', `work:${bench.mountpoint}`)
    const entry = join(bench.dir, 'data/applications/bagfs-work.desktop')
    const [click = '', other = ''] = Array.from(
      (await read(entry)).matchAll(/^Exec=(.*)$/gm),
      ([, command]) => command,
    )
    // No sign in these words means another thing to a shell.
    const menu = (command: string) => execa('sh', ['-c', command], { env, timeout: HANGING_MS })
    for (const times of [1, 2]) {
      await menu(click)
      await expect.poll(() => read(opened)).toBe(bench.mountpoint.repeat(times))
    }
    expect(await read(inDrive('.xdg-volume-info'))).toContain('Name=work')
    await menu(other)
    await expect(read(inDrive('.xdg-volume-info'))).rejects.toThrow('ENOENT')
    // The same word as for install.
    expect(await desktop('remove', `work:${bench.mountpoint}`)).toMatchObject({ code: 0 })
    expect(await desktop('remove', 'work')).toMatchObject({ code: 2 })
    await expect(read(entry)).rejects.toThrow('ENOENT')
  })
})
