import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'

it('a folder that another machine changed shows that once no file of it is open', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-follows-'))
  const service = await TestService.start(join(dir, 'service'))
  const home = (state: string) => ({
    url: service.proxy.url,
    token: service.token,
    dir: join(dir, state),
    writeBack: false,
  })
  const a = await DriveInProcess.open(home('a'))
  onTestFinished(async () => {
    await a.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const put = async (name: string): Promise<void> => {
    const { handle } = await a.drive.create(await a.node('F'), name, 0o644)
    await a.drive.write(handle, Buffer.from(name), 0)
    await a.drive.flush(handle)
    await a.drive.release(handle)
    await a.drain()
  }
  await a.drive.makeDirectory(ROOT, 'F', 0o755)
  await put('first')
  await a.drive.sync()
  const b = await DriveInProcess.open(home('b'))
  onTestFinished(() => b.drop())
  const held = await b.open('F/first')
  await put('second')
  await a.drive.sync()
  await b.listing.refreshNow()
  expect(await b.tree()).toEqual({ 'F/first': 'first' })
  expect(await b.readAll(held)).toBe('first')
  await b.drive.release(held)
  expect(await b.tree()).toEqual({ 'F/first': 'first', 'F/second': 'second' })
})
