import { beforeEach, describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { concluded, listAs } from '../../support/listings-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const LAG = { settings: { listingLagMs: 60_000 } }

describe('a listing of before that follows one which had what was stored here', () => {
  let account: AccountInProcess
  let drive: DriveInProcess
  beforeEach(async () => {
    account = await AccountInProcess.start()
    drive = await account.open(LAG)
  })

  it.each([
    {
      what: 'a file that was changed',
      make: () => drive.write('file', 'old'),
      change: () => drive.write('file', 'new'),
      left: { file: 'new' },
    },
    {
      what: 'a file that was removed',
      make: () => drive.write('file', 'old'),
      change: () => drive.remove('file'),
      left: {},
    },
    {
      what: 'a new file',
      make: () => drive.write('other', 'old'),
      change: () => drive.write('file', 'new'),
      left: { other: 'old', file: 'new' },
    },
    {
      what: 'a file that was renamed',
      make: () => drive.write('file', 'old'),
      change: () => drive.rename('file', 'renamed'),
      left: { renamed: 'old' },
    },
    {
      what: 'a folder that was changed',
      make: async () => {
        const { parent, name } = await drive.parent('folder')
        await drive.drive.makeDirectory(parent, name, 0o755)
        await drive.write('folder/one', 'old')
        await drive.write('folder/two', 'two')
      },
      change: () => drive.write('folder/one', 'new'),
      left: { 'folder/one': 'new', 'folder/two': 'two' },
    },
  ])('takes nothing of $what back, for the next mount neither', async ({ make, change, left }) => {
    await make()
    await stored()
    const before = JSON.stringify(await account.service.list())
    await change()
    await stored()
    expect(await drive.tree()).toEqual(left)
    await listAs(account, drive, before)
    expect(await drive.tree()).toEqual(left)
    await drive.drop()
    drive = await account.open(LAG)
    await listAs(account, drive, before)
    expect(await drive.tree()).toEqual(left)
    expect(drive.drive.commands.conflicts.list()).toEqual([])
  })

  it('does not make what is changed next from the version of before', async () => {
    await drive.write('file', 'old')
    await stored()
    const before = JSON.stringify(await account.service.list())
    await drive.write('file', 'new')
    await stored()
    await listAs(account, drive, before)
    await drive.append('file', ' and more')
    account.service.proxy.clear()
    await stored()
    expect(await drive.tree()).toEqual({ file: 'new and more' })
    expect(await account.service.contents()).toEqual({ file: 'new and more' })
  })

  /** The service has all, and a listing has told so. */
  async function stored(): Promise<void> {
    await drive.drain()
    await concluded(account, drive)
  }
})
