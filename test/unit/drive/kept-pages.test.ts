import { expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { noiseOf } from '../../support/seed.ts'

it('a file of a folder that is opened while the kernel has its pages is not fetched', async () => {
  const account = await AccountInProcess.start()
  const writer = await account.open()
  await writer.makeDirectory('F')
  await writer.write('F/x', Buffer.from(noiseOf(6_000_000)).toString('latin1'))
  await writer.drain()
  const reader = await account.open({}, 'elsewhere')
  const node = await reader.node('F/x')
  const asked = () =>
    account.service.proxy.requests.filter(({ path }) => path.includes('download')).length
  const before = asked()
  const handle = await reader.drive.open(node, { writable: false, truncate: false })
  reader.drive.noteKept(handle)
  // A request of before would have come to the service by then.
  await reader.listing.refreshNow()
  expect(asked()).toBe(before)
  await reader.drive.read(handle, Buffer.alloc(10), 3_000_000)
  expect(asked()).toBeGreaterThan(before)
  await reader.drive.release(handle)
})
