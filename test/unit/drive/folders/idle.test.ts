import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'

it('folders that nothing happens in are let go of when many are open, and are opened again', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-idle-'))
  const service = await TestService.start(join(dir, 'service'))
  const user = await DriveInProcess.open({
    url: service.proxy.url,
    token: service.token,
    dir: join(dir, 'state'),
    writeBack: true,
    tuning: { idleFolders: { count: 2, keptMs: 0 } },
  })
  onTestFinished(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const write = async (path: string): Promise<void> => {
    const { parent, name } = await user.parent(path)
    const { handle } = await user.drive.create(parent, name, 0o644)
    await user.drive.write(handle, Buffer.from(path), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
  }
  for (const name of ['stored', 'read', 'changed']) {
    await user.drive.makeDirectory(ROOT, name, 0o755)
    await write(`${name}/x`)
  }
  await user.drive.sync()
  const [stored, read, changed] = [
    await user.node('stored/x'),
    await user.node('read/x'),
    await user.node('changed/x'),
  ]
  const handle = await user.open('read/x')
  await write('changed/y')
  await user.drive.makeDirectory(ROOT, 'more', 0o755)
  await write('more/x')
  expect([stored, read, changed].map((node) => user.drive.knows(node))).toEqual([false, true, true])
  expect(await user.readAll(handle)).toBe('read/x')
  await user.drive.release(handle)
  const whole = ['changed/x', 'changed/y', 'more/x', 'read/x', 'stored/x']
  expect(await user.tree()).toEqual(Object.fromEntries(whole.map((path) => [path, path])))
  await user.drain()
  expect(await user.tree()).toEqual(Object.fromEntries(whole.map((path) => [path, path])))
})
