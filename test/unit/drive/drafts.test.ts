import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { startLocalService, type LocalService } from '../../../src/local-service/server.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'

let dir: string
let service: LocalService
let user: DriveInProcess
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-drafts-'))
  service = await startLocalService(
    { dataDir: join(dir, 'service'), tokens: ['token'] },
    { log: silentLogger },
  )
  user = await DriveInProcess.open({ url: service.url, token: 'token', dir, writeBack: true })
})
afterEach(async () => {
  await user.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

it('a file that is being written is in the listing, once', async () => {
  const { drive } = user
  const { handle } = await drive.create(ROOT, 'new', 0o644)
  expect(await drive.readDirectory(ROOT)).toEqual([{ name: 'new', kind: 'file' }])
  await drive.write(handle, Buffer.from('new'), 0)
  await drive.flush(handle)
  await drive.write(handle, Buffer.from('more'), 3)
  expect(await drive.readDirectory(ROOT)).toEqual([{ name: 'new', kind: 'file' }])
  await drive.release(handle)
  await user.drain()
  expect(await drive.readDirectory(ROOT)).toEqual([{ name: 'new', kind: 'file' }])
})
