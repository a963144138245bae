import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import { isAnswered } from '../../../src/intents/rules.ts'
import { TUNING } from '../../../src/mount/build-drive.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'

const DELETES = { method: 'DELETE' }
const UNAVAILABLE = { answer: { status: 503, body: 'later' } }
const { deletingMs } = TUNING.uploads

/** What one machine stores and changes, and the other changes back: the service gives it the id that it had. */
const WAYS = {
  'a folder': {
    store: async (user: DriveInProcess) => {
      await user.makeDirectory('F')
      await user.write('F/y', 'precious')
    },
    change: (user: DriveInProcess) => user.write('F/x', 'more'),
    changeBack: (user: DriveInProcess) => user.remove('F/x'),
    stored: { 'F/y': 'precious' },
  },
  'a file': {
    store: (user: DriveInProcess) => user.write('y', 'precious'),
    change: (user: DriveInProcess) => user.write('y', 'other'),
    changeBack: (user: DriveInProcess) => user.write('y', 'precious'),
    stored: { y: 'precious' },
  },
  'the name of a file': {
    store: (user: DriveInProcess) => user.write('y', 'precious'),
    change: (user: DriveInProcess) => user.rename('y', 'z'),
    changeBack: (user: DriveInProcess) => user.rename('z', 'y'),
    stored: { y: 'precious' },
  },
}

const CASES = Object.entries(WAYS)

/** A drive that has changed what it stored, and cannot delete the old version until `isOver`. */
async function lateDrive(
  account: AccountInProcess,
  { store, change }: (typeof WAYS)[keyof typeof WAYS],
) {
  const proxy = await startFaultProxy(account.service.proxy.url)
  onTestFinished(() => proxy.close())
  const at = { url: proxy.url, token: account.service.token, dir: `${account.dir}/late` }
  const home = { ...at, writeBack: true }
  const drive = await DriveInProcess.open(home)
  await store(drive)
  await drive.drain()
  const isOver = proxy.add({ match: DELETES, fault: UNAVAILABLE })
  await change(drive)
  await expect(drive.drain()).rejects.toThrow('Not sent')
  return { drive, home, isOver }
}

it.each(CASES)(
  'a machine that is late to delete its old version of %s does not take it from one that made it again',
  async (_what, way) => {
    const account = await AccountInProcess.start()
    const { drive: late, isOver } = await lateDrive(account, way)
    const hasWaited = deferred()
    const clock: typeof systemClock = {
      ...systemClock,
      sleep: (ms, signal) =>
        ms < deletingMs - 1_000 ? systemClock.sleep(ms, signal) : hasWaited.promise,
    }
    const { proxy, token } = account.service
    const tuning = { uploads: { ...TUNING.uploads, retryBaseMs: 20 } }
    const other = await DriveInProcess.open({
      ...{ url: proxy.url, token, dir: `${account.dir}/other`, writeBack: true, clock, tuning },
    })
    await way.changeBack(other)
    const drained = other.drain()
    await expect.poll(() => other.outbox.intents().some(isAnswered)).toBe(true)
    isOver()
    await late.drain()
    hasWaited.resolve()
    await expect(drained).rejects.toThrow('a delete of an old version took it')
    await other.drain()
    await late.drop()
    await other.drop()
    const next = await account.open({}, 'next')
    expect(await next.tree()).toEqual(way.stored)
  },
)

it.each(CASES)(
  'a machine that slept before it deleted its old version of %s leaves it where another made it again',
  async (_what, way) => {
    const account = await AccountInProcess.start()
    const { drive: asleep, home, isOver } = await lateDrive(account, way)
    await asleep.drop()
    isOver()
    const other = await account.open({}, 'other')
    await way.changeBack(other)
    await other.drain()
    const clock = { ...systemClock, now: () => systemClock.now() + 60_000 }
    const awake = await DriveInProcess.open({ ...home, clock })
    await awake.drain()
    await awake.drop()
    await other.drop()
    const next = await account.open({}, 'next')
    expect(await next.tree()).toEqual(way.stored)
  },
)

it.each([0, 600])(
  'a rename that is undone leaves one file, where a listing that is late by %i ms had both',
  async (lagMs) => {
    const account = await AccountInProcess.start()
    const { proxy } = account.service
    await account.service.upload('letter', 'content')
    if (lagMs > 0) proxy.lagListing(lagMs)
    const settings = { listingTtlMs: 60_000, listingLagMs: 2_000 }
    const user = await account.open({ writeBack: false, settings })
    const asked = deferred()
    const mayPass = deferred()
    const before = (): Promise<void> => {
      asked.resolve()
      return mayPass.promise
    }
    proxy.add({ match: DELETES, fault: { before }, times: 1 })
    await user.rename('letter', 'other')
    await asked.promise
    const listed = async () => (await user.listing.refreshNow()).records.length
    await expect.poll(listed).toBe(2)
    mayPass.resolve()
    await user.drain()
    await user.rename('other', 'letter')
    await user.drain()
    expect(await account.service.contents()).toEqual({ letter: 'content' })
  },
)
