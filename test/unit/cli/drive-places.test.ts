import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { findNamed } from '../../../src/cli/drive-names.ts'
import { findDriveOf, findLiveDrive, findPlaces } from '../../../src/cli/drive-places.ts'
import { absoluteMountpoint } from '../../../src/cli/mount-paths.ts'
import { readEnvironment } from '../../../src/config/env.ts'
import type { DriveStatus } from '../../../src/control/protocol.ts'
import { DriveRegistry } from '../../../src/control/registry.ts'

let directory = ''
beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'bagfs-places-')))
})
afterEach(() => rm(directory, { recursive: true }))

test('a mountpoint is found through links to links, also where it is not there yet', async () => {
  await mkdir(join(directory, 'real'))
  await symlink('real', join(directory, 'first'))
  await symlink(join(directory, 'first'), join(directory, 'second'))
  await symlink('real/missing', join(directory, 'third'))
  const found = (name: string): Promise<string> => absoluteMountpoint(join(directory, name))
  expect(await found('real')).toBe(join(directory, 'real'))
  expect(await found('second')).toBe(join(directory, 'real'))
  expect(await found('third')).toBe(join(directory, 'real/missing'))
})

test('a path that leads nowhere is told in a sentence', async () => {
  await writeFile(join(directory, 'file'), '')
  await symlink('round', join(directory, 'round'))
  const found = (name: string): Promise<string> => absoluteMountpoint(join(directory, name))
  await expect(found('missing/drive')).rejects.toMatchObject({ code: 'usage' })
  await expect(found('file/drive')).rejects.toMatchObject({ code: 'usage' })
  await expect(found('round/drive')).rejects.toMatchObject({ code: 'local-io' })
  expect(await found('round')).toBe(join(directory, 'round'))
})

test('the drive of a path is found while another one on this machine hangs', async () => {
  vi.stubEnv('XDG_RUNTIME_DIR', directory)
  const hung = await listen('hung', () => undefined)
  const live = await listen('live', (mountpoint) => JSON.stringify(statusOf(mountpoint)))
  try {
    const { drive, names } = await findDriveOf(join(directory, 'live', 'docs', 'a.txt'))
    expect(drive.mountpoint).toBe(join(directory, 'live'))
    expect(names).toEqual(['docs', 'a.txt'])
  } finally {
    vi.unstubAllEnvs()
    for (const server of [hung, live]) {
      server.closeAllConnections()
      server.close()
    }
  }
})

test('a path in no drive, or in one whose process has ended, is told with what to do', async () => {
  vi.stubEnv('XDG_RUNTIME_DIR', directory)
  try {
    await expect(findDriveOf(join(directory, 'file'))).rejects.toMatchObject({
      message: `${directory}/file is in no bagfs drive that is mounted.`,
      facts: { hint: expect.stringContaining('bagfs mount') as unknown },
    })
    const mountpoint = join(directory, 'dead')
    const socketPath = join(directory, 'dead.sock')
    await new DriveRegistry([join(directory, 'bagfs')]).add({ mountpoint, socketPath, pid: 1 })
    // Nothing below its mountpoint is looked at: that would fail, or hang.
    await expect(findDriveOf(join(mountpoint, 'docs/a.txt'))).rejects.toMatchObject({
      message: `The process of the drive at ${mountpoint} has ended.`,
      facts: { hint: `Mount it again: bagfs mount ${mountpoint}` },
    })
  } finally {
    vi.unstubAllEnvs()
  }
})

test('a path inside a drive is told to be in it, where the drive itself has to be named', async () => {
  vi.stubEnv('XDG_RUNTIME_DIR', directory)
  const live = await listen('live', (mountpoint) => JSON.stringify(statusOf(mountpoint)))
  try {
    const path = join(directory, 'live', 'docs')
    const told = {
      code: 'usage',
      message: `${path} is in the drive at ${directory}/live.`,
      facts: { hint: `Name the drive itself: ${directory}/live` },
    }
    await expect(findLiveDrive(path)).rejects.toMatchObject(told)
    await expect(findPlaces(readEnvironment({}), { mountpoint: path })).rejects.toMatchObject(told)
    await expect(findLiveDrive(join(directory, 'livelier'))).rejects.toMatchObject({
      message: `No running bagfs drive is mounted at ${directory}/livelier.`,
    })
  } finally {
    vi.unstubAllEnvs()
    live.closeAllConnections()
    live.close()
  }
})

test('what a drive that was killed has left is looked at, wherever its state directory is', async () => {
  vi.stubEnv('XDG_RUNTIME_DIR', directory)
  vi.stubEnv('XDG_STATE_HOME', join(directory, 'state'))
  try {
    const stateDir = join(directory, 'elsewhere', 'account')
    await mkdir(stateDir, { recursive: true })
    const dead = { mountpoint: join(directory, 'dead'), socketPath: join(directory, 'dead.sock') }
    await new DriveRegistry([join(directory, 'bagfs')]).add({ ...dead, stateDir, pid: 1 })
    const environment = readEnvironment({})
    expect(await findPlaces(environment, {})).toEqual([{ kind: 'idle', stateDir }])
    await mkdir(join(directory, 'other'))
    expect(await findPlaces(environment, { stateDir: join(directory, 'other') })).toEqual([])
  } finally {
    vi.unstubAllEnvs()
  }
})

test('a drive is found by its profile, unless a drive is at a path of this name', async () => {
  vi.stubEnv('XDG_RUNTIME_DIR', directory)
  vi.stubEnv('XDG_CONFIG_HOME', directory)
  const registry = new DriveRegistry([join(directory, 'bagfs')])
  const [one, two] = [join(directory, 'one'), join(directory, 'two')]
  const add = (mountpoint: string, profile: string): Promise<void> =>
    registry.add({ mountpoint, profile, socketPath: `${mountpoint}.sock`, pid: 1 })
  const before = process.cwd()
  process.chdir(directory)
  try {
    await expect(findNamed('work')).resolves.toMatchObject({ mountpoint: join(directory, 'work') })
    await expect(findNamed('')).rejects.toMatchObject({ message: 'An empty word is no path.' })
    await add(one, 'work')
    await mkdir(join(directory, 'work'))
    expect(await findNamed('work')).toEqual({ mountpoint: one, called: 'work:' })
    expect(await findNamed('work:')).toEqual({ mountpoint: one, called: 'work:' })
    expect(await findNamed('work:one')).toEqual({ mountpoint: one, called: one })
    expect(await findNamed('./work')).toMatchObject({ mountpoint: join(directory, 'work') })
    // In a drive a name that nothing there has is that of a profile, too.
    await mkdir(join(one, 'docs'), { recursive: true })
    process.chdir(one)
    expect(await findNamed('work')).toEqual({ mountpoint: one, called: 'work:' })
    await writeFile(join(one, 'work'), '')
    expect(await findNamed('work')).toMatchObject({ mountpoint: join(one, 'work') })
    await expect(findLiveDrive('work')).rejects.toMatchObject({
      message: `${one}/work is in the drive at ${one}.`,
      facts: { hint: `Name the drive itself: ${one}. The drive of the profile work: work:` },
    })
    await rm(one, { recursive: true })
    process.chdir(directory)
    await add(join(directory, 'work'), 'other')
    expect(await findNamed('work')).toMatchObject({ mountpoint: join(directory, 'work') })
    await expect(findNamed('other:one')).rejects.toMatchObject({
      message: `The drive at ${one} is of the profile work, not of other.`,
    })
    await registry.add({ mountpoint: two, profile: 'left', stateDir: directory, ...IDLE })
    await registry.leave(two)
    expect(await findNamed('left')).toMatchObject({ mountpoint: two })
  } finally {
    process.chdir(before)
    vi.unstubAllEnvs()
  }
})

const IDLE = { socketPath: '/none', pid: 1 }

/** A drive as far as its socket and its entry in the registry go; without an answer it hangs. */
async function listen(
  name: string,
  answer: (mountpoint: string) => string | undefined,
): Promise<Server> {
  const mountpoint = join(directory, name)
  await mkdir(join(mountpoint, 'docs'), { recursive: true })
  const socketPath = join(directory, `${name}.sock`)
  const server = createServer((_, response) => {
    const text = answer(mountpoint)
    if (text !== undefined) response.end(text)
  })
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  await new DriveRegistry([join(directory, 'bagfs')]).add({
    mountpoint,
    socketPath,
    pid: process.pid,
  })
  return server
}

function statusOf(mountpoint: string): DriveStatus {
  return {
    ...{ version: 1, mountpoint, pid: 1, service: 'http://service', account: 'me', mode: 'back' },
    listing: { ageMs: null, records: 0 },
    cache: { bytes: 0, maxBytes: 10, bags: 0 },
    ...{ uploads: [], downloads: [], outbox: [], damaged: [], room: [] },
  }
}
