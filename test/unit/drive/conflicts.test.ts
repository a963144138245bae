import { beforeEach, describe, expect, it } from 'vitest'
import { describeConflict } from '../../../src/drive/root/conflicts.ts'
import { isDone } from '../../../src/intents/rules.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { BUSY, UPLOAD } from '../../support/uploads.ts'

const LAG = { settings: { listingLagMs: 300 } }

let account: AccountInProcess
let a: DriveInProcess
let b: DriveInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
  a = await account.open(LAG, 'a')
  b = await account.open({}, 'b')
})

const told = (drive: DriveInProcess) =>
  drive.drive.commands.conflicts.list().map(({ name }) => name)

async function toldAfterListing(drive: DriveInProcess): Promise<readonly string[]> {
  await drive.listing.refreshNow()
  await drive.names()
  return told(drive)
}

/** All of a drive is at the service, and the drive has asked for no listing since. */
async function stored(drive: DriveInProcess): Promise<void> {
  await drive.drive.commitAll()
  await expect.poll(() => drive.outbox.intents().every(isDone)).toBe(true)
}

/** As `stored`, with folders. */
async function sent(drive: DriveInProcess): Promise<void> {
  await drive.drive.commands.sync()
  await stored(drive)
}

describe('a conflict is told when the listing shows it', () => {
  it('of a file that waits here, and that the other machine has stored', async () => {
    account.service.proxy.add(BUSY)
    await a.write('file', 'of a')
    await account.service.upload('file', 'of another')
    await expect.poll(() => toldAfterListing(a)).toEqual(['file'])
    await a.drop()
    a = await account.open(LAG, 'a')
    await expect.poll(() => toldAfterListing(a)).toEqual(['file'])
  })

  it.each(['before', 'after'])('of a file that was stored here %s there', async (when) => {
    await a.write('file', 'old')
    await sent(a)
    await b.listing.refreshNow()
    await b.names()
    if (when === 'before') await account.service.upload('file', 'of another')
    await b.write('file', 'of b')
    await stored(b)
    if (when === 'after') await account.service.upload('file', 'of another')
    await expect.poll(() => toldAfterListing(b)).toEqual(['file'])
    const words = b.drive.commands.conflicts.list().map(describeConflict)
    const where = when === 'before' ? /; that version is file \(\w+\)$/ : /; yours is beside it$/
    expect(words).toEqual([expect.stringMatching(where)])
  })

  it('and by the next mount, until the other version is gone', async () => {
    await b.names()
    const other = await account.service.upload('file', 'of another')
    await b.write('file', 'of b')
    await stored(b)
    await expect.poll(() => toldAfterListing(b)).toEqual(['file'])
    const isForgotten = (): boolean => b.outbox.intents().length === 0
    await expect.poll(isForgotten).toBe(true)
    const again = async (): Promise<readonly string[]> => {
      await b.drop()
      b = await account.open({}, 'b')
      return told(b)
    }
    expect(await again()).toEqual(['file'])
    await account.service.delete(other)
    expect(await toldAfterListing(b)).toEqual([])
    expect(await again()).toEqual([])
  })

  it('of a folder that changes here and there', async () => {
    await a.makeDirectory('folder')
    await a.write('folder/file', 'old')
    await sent(a)
    await b.listing.refreshNow()
    await b.write('folder/of b', 'of b')
    await a.write('folder/of a', 'of a, and longer')
    await sent(a)
    await b.listing.refreshNow()
    expect(told(b)).toEqual(['folder'])
  })
})

describe('no conflict is told', () => {
  beforeEach(async () => {
    a = await account.open({ settings: { listingLagMs: 60_000 } }, 'patient')
  })

  const listAs = async (body: string): Promise<void> => {
    const { proxy } = account.service
    proxy.clear()
    const headers = { 'content-type': 'application/json' }
    proxy.add({ match: { path: /files_list/ }, fault: { answer: { status: 200, headers, body } } })
    expect(await toldAfterListing(a)).toEqual([])
  }

  /** The other version was fetched, to be compared. */
  const compared = async (): Promise<void> => {
    const isDownload = ({ path, isOver }: { path: string; isOver: boolean }) =>
      path.includes('/download/') && isOver
    await expect
      .poll(async () => {
        expect(await toldAfterListing(a)).toEqual([])
        return account.service.proxy.requests.some(isDownload)
      })
      .toBe(true)
    expect(await toldAfterListing(a)).toEqual([])
  }

  it('of content that another machine stored, too', async () => {
    account.service.proxy.add(BUSY)
    await a.write('file', 'the same')
    await account.service.upload('file', 'the same', 'another id')
    await compared()
  })

  it('of bags of here that a listing has late', async () => {
    const late: string[] = []
    await listAs('[]')
    for (const content of ['one', 'two..', 'three...']) {
      await a.write('file', content)
      await stored(a)
      late.push(JSON.stringify(await account.service.list()))
    }
    for (const body of late) await listAs(body)
    expect(await a.read('file')).toBe('three...')
  })

  it('of what another machine made from the version of here, before that is gone', async () => {
    await a.write('file', 'old')
    await stored(a)
    await b.listing.refreshNow()
    await b.names()
    account.service.proxy.add({ ...BUSY, match: { method: 'DELETE' } })
    await b.write('file', 'newer, from that')
    await expect.poll(() => account.service.list()).toHaveLength(2)
    expect(await toldAfterListing(a)).toEqual([])
    account.service.proxy.clear()
    await stored(b)
    expect(await toldAfterListing(a)).toEqual([])
    // That the bag of here is gone is asked for by itself.
    await expect.poll(() => a.tree()).toEqual({ file: 'newer, from that' })
    expect(told(a)).toEqual([])
  })

  it('of what was sent from here, while its answer is lost and the listing has a wrong size of it', async () => {
    const { proxy } = account.service
    proxy.add({ match: UPLOAD, times: 1, fault: { loseAnswer: true } })
    proxy.add(BUSY)
    await a.write('file', 'of a')
    await expect.poll(() => account.service.list()).toHaveLength(1)
    const records = await account.service.list()
    await listAs(JSON.stringify(records.map((record) => ({ ...record, size: 17 }))))
    await compared()
  })

  it('of versions that were there before', async () => {
    await account.service.upload('file', 'one')
    await account.service.upload('file', 'another')
    await a.listing.refreshNow()
    await a.write('file', 'of a')
    expect(await toldAfterListing(a)).toEqual([])
    await stored(a)
    expect(await toldAfterListing(a)).toEqual([])
  })
})
