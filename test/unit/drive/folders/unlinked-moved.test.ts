import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLogger } from '../../../../src/domain/logger.ts'
import type { HandleId, NodeId } from '../../../../src/domain/ids.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { startLocalService, type LocalService } from '../../../../src/local-service/server.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'

let dir: string
let service: LocalService
let user: DriveInProcess
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-unlinked-'))
  service = await startLocalService(
    { dataDir: join(dir, 'service'), tokens: ['token'] },
    { log: silentLogger },
  )
  user = await open()
  for (const name of ['F', 'H']) await user.drive.makeDirectory(ROOT, name, 0o755)
  await user.drive.makeDirectory(await user.node('F'), 'sub', 0o755)
})
afterEach(async () => {
  await user.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

function open(): Promise<DriveInProcess> {
  return DriveInProcess.open({
    url: service.url,
    token: 'token',
    dir: join(dir, 'state'),
    writeBack: true,
  })
}

async function write(path: string, content: string): Promise<HandleId> {
  const { parent, name } = await user.parent(path)
  const { handle } = await user.drive.create(parent, name, 0o644)
  await user.drive.write(handle, Buffer.from(content), 0)
  return handle
}

async function save(path: string, content: string): Promise<void> {
  const handle = await write(path, content)
  await user.drive.flush(handle)
  await user.drive.release(handle)
}

async function move(from: string, to: string): Promise<void> {
  const [source, target] = [await user.parent(from), await user.parent(to)]
  await user.drive.rename(source.parent, source.name, target.parent, target.name)
}

async function unlink(path: string): Promise<void> {
  const { parent, name } = await user.parent(path)
  await user.drive.unlink(parent, name)
}

/** The folder that the file was in goes in each of the ways there are. */
const GOES = [
  { title: 'into another folder', go: () => move('F', 'H/F') },
  {
    title: 'into another folder and back',
    go: () => move('F', 'H/F').then(() => move('H/F', 'F')),
  },
  { title: 'to another name', go: () => move('F', 'G') },
  {
    title: 'away',
    go: async () => {
      await user.drive.removeDirectory(await user.node('F'), 'sub')
      await user.drive.removeDirectory(ROOT, 'F')
    },
  },
]

describe.each(GOES)(
  'a file that was removed and is open while its folder goes $title',
  ({ go }) => {
    /** What a program does with the file: all of it succeeds, and reads back. */
    async function goesOn(handle: HandleId, node: NodeId, content: string): Promise<void> {
      const { drive } = user
      expect(await user.readAll(handle)).toBe(content)
      await drive.setAttributes(node, { mode: 0o600 })
      expect(await drive.getAttributes(node)).toMatchObject({ mode: 0o600, size: content.length })
      await drive.write(handle, Buffer.from(' and after'), content.length)
      await drive.fsync(handle)
      expect(await user.readAll(handle)).toBe(`${content} and after`)
      await drive.truncateOpen(handle, 3)
      await drive.truncateOpen(handle, 0)
      await drive.write(handle, Buffer.from('anew'), 0)
      expect(await user.readAll(handle)).toBe('anew')
      expect(await drive.getAttributes(node)).toMatchObject({ size: 4 })
      await drive.flush(handle)
      await drive.release(handle)
      await expect(drive.getAttributes(node)).rejects.toMatchObject({ code: 'not-found' })
    }

    it('goes on when it was new', async () => {
      const handle = await write('F/open', 'before')
      const node = await user.node('F/open')
      await unlink('F/open')
      await go()
      await goesOn(handle, node, 'before')
    })

    it('goes on when it was closed before, and the drive sends all', async () => {
      await save('F/sub/open', 'before')
      const node = await user.node('F/sub/open')
      const handle = await user.drive.open(node, { writable: true, truncate: false })
      await unlink('F/sub/open')
      await go()
      await user.drive.write(handle, Buffer.from('B'), 0)
      await user.drain()
      await goesOn(handle, node, 'Before')
    })

    it.each(['is stored and read', 'is stored'])('goes on when it %s', async (state) => {
      await save('F/sub/open', 'before')
      await user.drain()
      await user.drop()
      user = await open()
      const node = await user.node('F/sub/open')
      const handle = await user.drive.open(node, { writable: true, truncate: false })
      if (state === 'is stored and read') await user.readAll(handle)
      await unlink('F/sub/open')
      await go()
      await user.drain()
      await goesOn(handle, node, 'before')
      await user.drain()
    })

    it('leaves nothing behind', async () => {
      const handle = await write('F/open', 'before')
      await unlink('F/open')
      await go()
      await user.drive.write(handle, Buffer.from('B'), 0)
      await user.drive.flush(handle)
      await user.drive.release(handle)
      await user.drain()
      const outbox = join(dir, 'state', 'outbox', 'v2')
      const left = readdirSync(outbox).filter((id) => user.outbox.get(id as never) === undefined)
      expect(left).toEqual([])
    })
  },
)
