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

const write = async (path: string, content: string): Promise<void> => {
  const { drive } = user
  const { parent, name } = await user.parent(path)
  const { handle } = await drive.create(parent, name, 0o644)
  await drive.write(handle, Buffer.from(content), 0)
  await drive.flush(handle)
  await drive.release(handle)
}

it.each([
  {
    what: 'an open file',
    older: async () => {
      const { handle } = await user.drive.create(ROOT, 'older', 0o644)
      await user.drive.write(handle, Buffer.from('older'), 0)
      return async () => {
        await user.drive.flush(handle)
        await user.drive.release(handle)
      }
    },
  },
  {
    what: 'a step of a save',
    name: 'older.tmp',
    older: async () => {
      await write('older.tmp', 'older')
      return () => Promise.resolve()
    },
  },
])('$what takes the place of what was stored since it was made', async ({ older, name }) => {
  const { drive, outbox, listing } = user
  const close = await older()
  await write('file', 'newer')
  await expect.poll(() => outbox.named('file').map(({ phase }) => phase)).toEqual(['confirmed'])
  await drive.rename(ROOT, name ?? 'older', ROOT, 'file')
  await close()
  await user.drain()
  expect(await user.tree()).toEqual({ file: 'older' })
  await expect
    .poll(async () => {
      await listing.refreshNow()
      await drive.readDirectory(ROOT)
      return outbox.intents()
    })
    .toEqual([])
  expect(await user.tree()).toEqual({ file: 'older' })
  expect(listing.current()?.records).toHaveLength(1)
})

it('a folder takes the place of an empty one that was made since', async () => {
  const { drive, listing } = user
  await drive.makeDirectory(ROOT, 'older', 0o755)
  await drive.makeDirectory(ROOT, 'folder', 0o755)
  await write('folder/newer', 'newer')
  await user.drive.commands.sync('folder')
  await user.drain()
  await drive.unlink(await user.node('folder'), 'newer')
  await write('older/file', 'older')
  await drive.rename(ROOT, 'older', ROOT, 'folder')
  await user.drive.commands.sync('folder')
  await user.drain()
  expect(await user.tree()).toEqual({ 'folder/file': 'older' })
  await listing.refreshNow()
  expect(listing.current()?.records).toHaveLength(1)
  expect(await user.tree()).toEqual({ 'folder/file': 'older' })
})
