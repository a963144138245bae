import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { HandleId } from '../../../src/domain/ids.ts'
import { isDone } from '../../../src/intents/rules.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { copySource } from '../../../src/drive/tree/copy-source.ts'
import { StagedFile } from '../../../src/drive/tree/staged-file.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

/** A draft begins as a copy, and that may take as long as a download. */
describe('what happens to a file while its first write copies it', () => {
  let account: AccountInProcess
  let a: DriveInProcess
  let b: DriveInProcess
  beforeEach(async () => {
    account = await AccountInProcess.start()
    a = await account.open({}, 'a')
    b = await account.open({}, 'b')
  })

  it('a rename moves the written file along', async () => {
    await a.write('file', 'old')
    await a.drive.commands.sync()
    await a.listing.refreshNow()
    await a.write('other', 'other')
    await writeWhile('file', () => a.rename('file', 'renamed'))
    expect(await account.service.contents()).toEqual({ renamed: 'new', other: 'other' })
  })

  it('what is stored meanwhile is taken the place of', async () => {
    const { drive } = a
    const { handle } = await drive.create(ROOT, 'file', 0o644)
    await drive.write(handle, Buffer.from('old'), 0)
    await drive.flush(handle)
    vi.spyOn(StagedFile.prototype, 'copyTo').mockImplementationOnce(async function (
      this: StagedFile,
      path,
    ) {
      await copySource(this, path)
      await expect.poll(() => a.outbox.named('file').map(isDone)).toEqual([true])
      await a.listing.refreshNow()
      await a.names()
      await expect.poll(() => a.outbox.intents()).toEqual([])
    })
    await drive.write(handle, Buffer.from('new'), 0)
    await drive.flush(handle)
    await drive.release(handle)
    await drive.commands.sync()
    expect(await account.service.contents()).toEqual({ file: 'new' })
    expect(drive.commands.conflicts.list()).toEqual([])
  })

  it('attributes that are set meanwhile are kept', async () => {
    await a.write('file', 'old')
    await a.drive.commands.sync()
    await a.listing.refreshNow()
    const node = await a.node('file')
    await writeWhile('file', () => a.drive.setAttributes(node, { mode: 0o640 }))
    expect(await a.drive.getAttributes(node)).toMatchObject({ mode: 0o640 })
  })

  it('what another machine stores stays', async () => {
    await a.write('file', 'old')
    await a.drive.commands.sync()
    await a.listing.refreshNow()
    await b.listing.refreshNow()
    await writeWhile('file', async () => {
      await b.write('file', 'of b')
      await b.drive.commands.sync()
      await a.listing.refreshNow()
      await a.tree()
    })
    const stored = (await account.service.list()).map(({ bag_id: id }) => id)
    const contents = await Promise.all(stored.map((id) => account.service.content(id)))
    expect(contents.map(String).sort()).toEqual(['new', 'of b'])
  })

  /** The first write is held in its copy for as long as `task` takes. */
  async function writeWhile(path: string, task: () => Promise<void>): Promise<void> {
    const { drive } = a
    const node = await a.node(path)
    const handle: HandleId = await drive.open(node, { writable: true, truncate: false })
    const copyTo = a.cache.copyTo.bind(a.cache)
    vi.spyOn(a.cache, 'copyTo').mockImplementationOnce(async (...args) => {
      const length = await copyTo(...args)
      await task()
      return length
    })
    await drive.write(handle, Buffer.from('new'), 0)
    await drive.flush(handle)
    await drive.release(handle)
    await drive.commands.sync()
  }
})
