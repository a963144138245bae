import { beforeEach, describe, expect, it } from 'vitest'
import { isDone } from '../../../src/intents/rules.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { concluded, listAs } from '../../support/listings-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const LAG = { settings: { listingLagMs: 60_000 } }

describe('what was stored here, and is gone before a listing had it, stays gone when a late one has it', () => {
  let account: AccountInProcess
  let drive: DriveInProcess
  beforeEach(async () => {
    account = await AccountInProcess.start()
    drive = await account.open(LAG)
    await listAs(account, drive, '[]')
  })

  it.each([
    { what: 'removed', change: () => drive.remove('file'), left: {} },
    { what: 'replaced', change: () => drive.write('file', 'new'), left: { file: 'new' } },
    {
      what: 'renamed and removed',
      change: async () => {
        await drive.rename('file', 'other')
        await done()
        await drive.remove('other')
      },
      left: {},
    },
  ])('when it was $what', async ({ change, left }) => {
    await drive.write('file', 'old')
    await done()
    const late = JSON.stringify(await account.service.list())
    await change()
    await done()
    // No listing has it.
    await concluded(account, drive)
    await listAs(account, drive, late)
    expect(await drive.tree()).toEqual(left)
    await drive.drop()
    drive = await account.open(LAG)
    await listAs(account, drive, late)
    expect(await drive.tree()).toEqual(left)
    expect(drive.drive.commands.conflicts.list()).toEqual([])
  })

  async function done(): Promise<void> {
    await drive.drive.commitAll()
    await expect.poll(() => drive.outbox.intents().every(isDone)).toBe(true)
  }
})
