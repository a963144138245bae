import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rm,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { V8_ARGUMENTS } from '../../../src/mount/tune-v8.ts'
import { parseUnit, unitName, unitText } from '../../../src/cli/systemd-unit.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../../src/local-service/server.ts'
import { canMount } from '../../support/fuse.ts'
import { BuiltProgram, type Outcome } from './built-program.ts'

const TOKEN = 'a-token-of-this-test-0123456789'
const MOUNTPOINTS = ['/mnt/x', '/home/me/My Drive', '/a/100%/$HOME/"q"', '/ü/-x/.y', '/back\\slash']

function hasSystemd(): boolean {
  if (spawnSync('systemd-analyze', ['--version']).status === 0) return true
  if (process.env['BAGFS_REQUIRE_MOUNT'] === '1') throw new Error('systemd-analyze is missing.')
  console.error('\n*** TESTS OF UNITS SKIPPED: systemd-analyze is missing. ***\n')
  return false
}

describe('the unit of a drive', () => {
  const settings = {
    program: [process.execPath, '/opt/bag fs/main.js'],
    variables: { XDG_STATE_HOME: '/var/lib/100% mine' },
  }

  test.runIf(hasSystemd())('is one that systemd takes without a word', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'bagfs-units-'))
    try {
      for (const mountpoint of MOUNTPOINTS) {
        const path = join(directory, unitName(mountpoint))
        await writeFile(path, unitText({ profile: 'work', mountpoint }, settings))
        const { stdout, stderr, status } = spawnSync(
          'systemd-analyze',
          ['verify', '--user', '--man=no', path],
          {
            encoding: 'utf8',
            env: { ...process.env, XDG_RUNTIME_DIR: directory, HOME: directory },
          },
        )
        // What it says of units of the machine itself is not about this one.
        const said = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('bagfs'))
        expect({ mountpoint, said, status }).toEqual({ mountpoint, said: [], status: 0 })
      }
    } finally {
      await rm(directory, { recursive: true })
    }
  })

  test.runIf(hasSystemd())('has the name that systemd makes of the path', () => {
    for (const mountpoint of MOUNTPOINTS) {
      const args = ['--path', '--', mountpoint]
      const escaped = execFileSync('systemd-escape', args, { encoding: 'utf8' }).trim()
      expect(unitName(mountpoint)).toBe(`bagfs-${escaped}.service`)
    }
    expect(() => unitName(`/${'x'.repeat(250)}`)).toThrow('too long')
  })

  test('tells systemd that the drive is ready, lets the outbox drain and comes back after a failure', () => {
    const text = unitText({ profile: 'work', mountpoint: '/a/100%/$HOME/"q"' }, settings)
    expect(text).toContain(
      `ExecStart="${process.execPath}" "/opt/bag fs/main.js" "mount" "--foreground" "work:/a/100%%/$$HOME/\\"q\\""\n`,
    )
    expect(text).toContain('Environment="XDG_STATE_HOME=/var/lib/100%% mine"\n')
    for (const line of ['Type=notify', 'Restart=on-failure', 'TimeoutStopSec=10min']) {
      expect(text).toContain(`\n${line}\n`)
    }
  })

  test('tells of what drive it is', () => {
    for (const mountpoint of MOUNTPOINTS) {
      const unit = { profile: 'work', mountpoint }
      expect(parseUnit(unitText(unit, settings))).toEqual(unit)
    }
    expect(parseUnit('[Service]\nExecStart=/bin/true\n')).toBeUndefined()
  })
})

describe('bagfs service', () => {
  let program: BuiltProgram
  let service: LocalService
  let home = ''
  let counter = 0
  let variables: Record<string, string> = {}

  beforeAll(async () => {
    program = await BuiltProgram.build()
    const dataDir = join(program.directory, 'data')
    service = await startLocalService({ dataDir, tokens: [TOKEN] }, { log: silentLogger })
  }, 120_000)

  afterAll(async () => {
    await service.close()
    await program.remove()
  })

  beforeEach(async () => {
    counter += 1
    home = join(await realpath(program.directory), `home-${counter}`)
    await mkdir(join(home, 'drive'), { recursive: true, mode: 0o700 })
    await mkdir(join(home, 'bin'))
    const PATH = `${join(home, 'bin')}:${process.env['PATH'] ?? ''}`
    variables = { HOME: home, XDG_RUNTIME_DIR: home, PATH }
  })

  const bagfs = (...args: string[]): Promise<Outcome> => program.run(args, { cwd: home, variables })
  const units = () => readdir(join(home, '.config/systemd/user'))
  const asked = async () => (await readFile(join(home, 'asked'), 'utf8')).trimEnd().split('\n')

  async function login(): Promise<void> {
    const token = join(home, 'token')
    await writeFile(token, TOKEN, { mode: 0o600 })
    const { exitCode } = await bagfs('login', 'work', '--url', service.url, '--token-file', token)
    expect(exitCode).toBe(0)
  }

  /** A systemd that does as `script` says. */
  async function installSystemctl(script: string): Promise<void> {
    const path = join(home, 'bin/systemctl')
    await writeFile(path, `#!/bin/sh\necho "$@" >> '${home}/asked'\n${script}\n`)
    await chmod(path, 0o755)
  }

  const name = (): string => unitName(join(home, 'drive'))

  test.runIf(canMount())('lets a drive come back, tells of it, and lets it be', async () => {
    await login()
    const shown = 'ActiveState=active\\nUnitFileState=enabled\\nStatusText=Mounted at x\\n'
    await installSystemctl(`case $2 in show) printf '${shown}' ;; esac`)
    const enabled = await bagfs('service', 'enable', 'work', 'drive')
    expect(enabled.stderr).toContain('loginctl enable-linger')
    expect(enabled.exitCode).toBe(0)
    expect(await asked()).toEqual(['--user daemon-reload', `--user enable --now ${name()}`])
    expect(await units()).toEqual([name()])
    const unit = await readFile(join(home, '.config/systemd/user', name()), 'utf8')
    for (const argument of V8_ARGUMENTS) expect(unit).toContain(` "${argument}" `)
    const told = await bagfs('service', 'status')
    expect(told.stdout).toBe(`${home}/drive (work): active, enabled. Mounted at x\n`)
    expect(told.exitCode).toBe(0)
    const json = await bagfs('service', 'status', 'work', '--json')
    expect(JSON.parse(json.stdout)).toEqual([
      {
        profile: 'work',
        mountpoint: join(home, 'drive'),
        state: 'active',
        start: 'enabled',
        says: 'Mounted at x',
      },
    ])
    const inUse = await bagfs('logout', 'work')
    expect(inUse.stderr).toContain(
      `Profile work is in use. systemd mounts it at ${home}/drive (bagfs service disable ${home}/drive).`,
    )
    expect(inUse.exitCode).toBe(7)
    expect((await bagfs('service', 'enable', './work', 'drive')).exitCode).toBe(2)
    expect(await bagfs('service', 'disable', 'work')).toMatchObject({ exitCode: 0 })
    expect((await asked()).slice(-2)).toEqual([
      `--user disable --now ${name()}`,
      '--user daemon-reload',
    ])
    expect(await units()).toEqual([])
    const nothing = await bagfs('service', 'disable', 'drive')
    expect(nothing.stderr).toContain('No drive at drive comes back by itself.')
    expect(nothing.exitCode).toBe(2)
  })

  test('goes out of the menu of the desktop with its profile', async () => {
    await login()
    expect(await bagfs('desktop', 'install', 'work:drive')).toMatchObject({ exitCode: 0 })
    const entries = join(home, '.local/share/applications')
    expect(await readdir(entries)).toEqual(['bagfs-work.desktop'])
    const { stderr, exitCode } = await bagfs('logout', 'work')
    expect(stderr).toContain('Its entry is out of the menu of the desktop.')
    expect(exitCode).toBe(0)
    expect(await readdir(entries)).toEqual([])
  })

  test.runIf(canMount())('ends with 1 where a drive is not mounted', async () => {
    await login()
    await installSystemctl('')
    await bagfs('service', 'enable', 'work:drive')
    await installSystemctl(`printf 'ActiveState=failed\\nUnitFileState=enabled\\nStatusText=\\n'`)
    const { stdout, exitCode } = await bagfs('service', 'status')
    expect(stdout).toBe(`${home}/drive (work): failed, enabled\n`)
    expect(exitCode).toBe(1)
  })

  test.runIf(canMount())('tells the last words of no drive that was killed', async () => {
    await login()
    await installSystemctl('')
    await bagfs('service', 'enable', 'work:drive')
    const said = async (state: string): Promise<string> => {
      const shown = `ActiveState=${state}\\nUnitFileState=enabled\\nStatusText=Its words\\n`
      await installSystemctl(`printf '${shown}'`)
      return (await bagfs('service', 'status')).stdout
    }
    for (const state of ['activating', 'inactive', 'failed']) {
      expect(await said(state)).toBe(`${home}/drive (work): ${state}, enabled\n`)
    }
    expect(await said('deactivating')).toContain('deactivating, enabled. Its words\n')
  })

  test('tells the journal that the words by which it fails are an error', async () => {
    const path = join(home, 'journal')
    const file = await open(path, 'w')
    const fail = async (journal: string): Promise<string> => {
      await file.truncate()
      const main = join(program.directory, 'dist/main.js')
      spawnSync(process.execPath, [main, 'mount', '--foreground', join(home, 'nowhere')], {
        stdio: ['ignore', 'ignore', file.fd],
        env: { ...variables, JOURNAL_STREAM: journal },
      })
      return (await readFile(path, 'utf8')).replaceAll('\0', '')
    }
    try {
      const { dev, ino } = await file.stat({ bigint: true })
      const told = await fail(`${dev}:${ino}`)
      expect(told).toMatch(/^<3>bagfs: .*\n<3> {2}/)
      expect(await fail(`${dev}:1`)).toBe(told.replaceAll('<3>', ''))
    } finally {
      await file.close()
    }
  })

  test.runIf(canMount())('leaves nothing of a drive that does not come up', async () => {
    await login()
    await installSystemctl('case $2 in enable) echo "Job failed." >&2; exit 1 ;; esac')
    const { stderr, exitCode } = await bagfs('service', 'enable', 'drive')
    expect(stderr).toContain('systemctl --user enable failed: Job failed.')
    expect(stderr).toContain(`journalctl --user -u ${name()}`)
    expect(exitCode).toBe(1)
    expect(await units()).toEqual([])
    expect(await asked()).toContain(`--user disable --now ${name()}`)
  })

  test.runIf(canMount())(
    'refuses what the mount would refuse, before systemd hears of it',
    async () => {
      await installSystemctl('')
      const without = await bagfs('service', 'enable', 'drive')
      expect(without.stderr).toContain('bagfs login')
      await login()
      await writeFile(join(home, 'drive/file'), '')
      const full = await bagfs('service', 'enable', 'drive')
      expect(full.stderr).toMatch(/^bagfs: .*drive is not empty\./)
      expect([without.exitCode, full.exitCode]).toEqual([2, 2])
      await expect(asked()).rejects.toMatchObject({ code: 'ENOENT' })
    },
  )

  test.runIf(canMount())('says so where there is no systemd', async () => {
    await login()
    variables['PATH'] = join(home, 'bin')
    const { stderr, exitCode } = await bagfs('service', 'enable', 'drive')
    // Users other than root need fusermount3, which is not on this path either.
    if (process.getuid?.() === 0) expect(stderr).toContain('This machine has no systemd')
    expect(exitCode).toBe(2)
  })

  test('tells how to begin where no drive comes back', async () => {
    const { stderr, exitCode } = await bagfs('service', 'status')
    expect(stderr).toContain('bagfs service enable [PROFILE:]MOUNTPOINT')
    expect(exitCode).toBe(0)
  })
})
