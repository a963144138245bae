import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLogger } from '../../../../src/domain/logger.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { startLocalService, type LocalService } from '../../../../src/local-service/server.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'

const APPEND = { writable: true, truncate: false, append: true }

let dir: string
let service: LocalService
let drives: readonly DriveInProcess[]
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-append-'))
  const dataDir = join(dir, 'service')
  service = await startLocalService({ dataDir, tokens: ['token'] }, { log: silentLogger })
  drives = await Promise.all(['a', 'b'].map((name) => open(join(dir, name))))
})
afterEach(async () => {
  for (const drive of drives) await drive.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

function open(stateDir: string): Promise<DriveInProcess> {
  return DriveInProcess.open({ url: service.url, token: 'token', dir: stateDir, writeBack: true })
}

/** Writes to the end as a kernel does that knows this size of the file. */
async function append(drive: DriveInProcess, text: string, size: number): Promise<void> {
  const handle = await drive.drive.open(await drive.node('F/log'), APPEND)
  await drive.drive.write(handle, Buffer.from(text), size)
  await drive.drive.write(handle, Buffer.from('!'), size + text.length)
  await drive.drive.flush(handle)
  await drive.drive.release(handle)
}

describe('an append to a file in a folder that another machine stored anew', () => {
  it('goes to the end of what is there, though the kernel knows the size of before', async () => {
    const [a, b] = drives
    if (a === undefined || b === undefined) throw new Error('There are two.')
    await a.drive.makeDirectory(ROOT, 'F', 0o755)
    const { handle } = await a.drive.create(await a.node('F'), 'log', 0o644)
    await a.drive.write(handle, Buffer.from('a1'), 0)
    await a.drive.flush(handle)
    await a.drive.release(handle)
    await a.drive.commands.sync()
    await a.drain()
    await b.listing.refreshNow()
    expect(await b.read('F/log')).toBe('a1')
    await append(b, ' and of the other machine', 2)
    await b.drive.commands.sync()
    await b.drain()
    await a.listing.refreshNow()
    await append(a, ' a9', 2)
    expect(await a.read('F/log')).toBe('a1 and of the other machine! a9!')
  })
})
