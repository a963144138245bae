import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'

it.each([
  ['at once, also while a file of it is read', false],
  ['once a file of it that is open for writing is closed', true],
])('a folder that another machine changed shows that %s', async (_, writable) => {
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
  const first = await b.node('F/first')
  const held = await b.drive.open(first, { writable, truncate: false })
  await put('second')
  await a.drive.sync()
  await b.listing.refreshNow()
  const before = { 'F/first': 'first' }
  const after = { ...before, 'F/second': 'second' }
  expect(await b.tree()).toEqual(writable ? before : after)
  expect(await b.readAll(held)).toBe('first')
  expect(await b.drive.getAttributes(first)).toMatchObject({ node: first, size: 5 })
  if (!writable) {
    await expect(b.drive.open(first, { writable: true, truncate: false })).rejects.toMatchObject({
      code: 'stale',
    })
  }
  await b.drive.release(held)
  expect(await b.tree()).toEqual(after)
  expect(b.drive.knows(first)).toBe(false)
})
