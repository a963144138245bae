import { expect, it } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'

it.each([
  ['at once, also while a file of it is read', false],
  ['once a file of it that is open for writing is closed', true],
])('a folder that another machine changed shows that %s', async (_, writable) => {
  const account = await AccountInProcess.start()
  const a = await account.open({}, 'a')
  await a.drive.makeDirectory(ROOT, 'F', 0o755)
  await a.write('F/first', 'first')
  await a.drive.commands.sync()
  const b = await account.open({}, 'b')
  const first = await b.node('F/first')
  const held = await b.drive.open(first, { writable, truncate: false })
  await a.write('F/second', 'second')
  await a.drive.commands.sync()
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
