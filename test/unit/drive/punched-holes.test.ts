import { expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'

const PUNCHED = { isZeroed: true, isLengthened: false }

it('zeros are written where they were asked for in a file that is open to append, also when its end is not sure', async () => {
  const account = await AccountInProcess.start()
  const [a, b] = [await account.open({}, 'a'), await account.open({}, 'b')]
  await a.write('file', 'of a')
  await a.drive.commands.sync()
  await b.listing.refreshNow()
  await b.write('file', 'longer, of b')
  await b.drive.commands.sync()
  await a.node('file')
  await a.listing.refreshNow()
  // The size was another one a moment ago.
  const node = await a.node('file')
  const handle = await a.drive.open(node, { writable: true, truncate: false, append: true })
  await a.drive.allocate(handle, { offset: 0, length: 6 }, PUNCHED)
  await a.drive.flush(handle)
  await a.drive.release(handle)
  expect(await a.read('file')).toBe(`${'\0'.repeat(6)}, of b`)
})
