import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { absoluteMountpoint, findDriveOf } from '../../../src/cli/drive-places.ts'
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
    const { drive, name } = await findDriveOf(join(directory, 'live', 'docs', 'a.txt'))
    expect(drive.mountpoint).toBe(join(directory, 'live'))
    expect(name).toBe('docs')
  } finally {
    vi.unstubAllEnvs()
    for (const server of [hung, live]) {
      server.closeAllConnections()
      server.close()
    }
  }
})

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
  await new DriveRegistry(join(directory, 'bagfs')).add({
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
