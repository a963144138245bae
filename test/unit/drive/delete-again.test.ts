import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { QUICK, serviceOf, type DriveInProcess } from '../../support/drive-in-process.ts'

const DELETE = { method: 'DELETE' }
const LISTING = { method: 'GET', path: /files_list/ }

/** What does away with the bag of `y`. */
const WAYS: Readonly<Record<string, (user: DriveInProcess) => Promise<void>>> = {
  'a removal': (user) => user.remove('y'),
  'a change': (user) => user.write('y', 'other'),
  'a rename': (user) => user.rename('y', 'z'),
}

/** A machine that is busy may take its time from one try to the next. */
const UPLOADS = { ...QUICK.uploads, deletingMs: 60_000 }

async function start(): Promise<{
  readonly account: AccountInProcess
  readonly user: DriveInProcess
  /** Deletes the bag, and stores it again, past the drive. */
  readonly storeAnew: () => Promise<void>
  readonly bagId: string
}> {
  const account = await AccountInProcess.start()
  const { service, dir } = account
  await service.upload('y', 'precious')
  const user = await account.open({ tuning: { uploads: UPLOADS } })
  await user.read('y')
  const { records } = await user.listing.refreshNow()
  const bagId = records.find(({ name }) => name === 'y')?.bagId ?? ''
  const storeAnew = async (): Promise<void> => {
    const at = { url: service.local.url, token: service.token, dir, writeBack: true }
    const other = serviceOf(at)
    await other.deleteBag(toBagId(bagId))
    await other.close()
    await service.upload('y', 'precious')
  }
  return { account, user, storeAnew, bagId }
}

const ROWS = Object.entries(WAYS).map(([what, away]) => ({ what, away }))

it.each(ROWS)(
  'a DELETE of $what that is repeated spares what another machine stored since the first',
  async ({ away }) => {
    const { account, user, storeAnew, bagId } = await start()
    const { proxy } = account.service
    proxy.add({
      match: DELETE,
      times: 1,
      fault: { before: storeAnew, answer: { status: 500 } },
    })
    await away(user)
    await user.drain()
    const { records } = await user.listing.refreshNow()
    expect(records.map((record) => record.bagId)).toContain(bagId)
  },
)

it.each(ROWS)(
  'a DELETE of $what that is sent again by the next mount spares what another machine stored since',
  async ({ away }) => {
    const { account, user, storeAnew, bagId } = await start()
    const { proxy } = account.service
    proxy.add({ match: DELETE, fault: { silence: true } })
    await away(user)
    await expect.poll(() => proxy.requests.some(({ method }) => method === 'DELETE')).toBe(true)
    await user.drop()
    await storeAnew()
    proxy.clear()
    const next = await account.open()
    await next.drain()
    const { records } = await next.listing.refreshNow()
    expect(records.map((record) => record.bagId)).toContain(bagId)
  },
)

it('deletes that wait at the start are held against one listing', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open()
  const names = Array.from({ length: 20 }, (_, index) => `file ${index}`)
  for (const name of names) await user.write(name, name)
  await user.drain()
  const { proxy } = account.service
  const takeAway = proxy.add({ match: DELETE, fault: { answer: { status: 503 } } })
  for (const name of names) await user.remove(name)
  await user.drop()
  takeAway()
  const before = proxy.requests.length
  const next = await account.open()
  await next.drain()
  const asked = proxy.requests.slice(before).filter(({ path }) => LISTING.path.test(path))
  expect(await account.service.contents()).toEqual({})
  expect(asked.length).toBeLessThan(6)
})

it('many deletes that are repeated at the same time leave room for the listing that they are held against', async () => {
  const { account, user } = await start()
  const { service } = account
  const names = Array.from({ length: 8 }, (_, index) => `file ${index}`)
  for (const name of names) await service.upload(name, name)
  await user.listing.refreshNow()
  const reached = deferred()
  let arrived = 0
  const before = (): Promise<void> => {
    arrived += 1
    if (arrived === 4) reached.resolve()
    return reached.promise
  }
  service.proxy.add({ match: DELETE, times: 8, fault: { before, answer: { status: 500 } } })
  for (const name of names) await user.remove(name)
  await user.drain()
  expect(arrived).toBe(8)
  expect(await service.contents()).toEqual({ y: 'precious' })
})
