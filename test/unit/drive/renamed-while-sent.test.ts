import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { UPLOAD } from '../../support/uploads.ts'

it('a file that becomes a backup in the moment its upload begins is one file after a kill', async () => {
  const account = await AccountInProcess.start()
  const { proxy } = account.service
  let user = await account.open()
  const asked = deferred()
  const mayAnswer = deferred()
  const before = (): Promise<void> => {
    asked.resolve()
    return mayAnswer.promise
  }
  // The room of the account is asked for before an upload.
  proxy.add({ match: { path: /user$/ }, times: 1, fault: { before } })
  const arrived = deferred()
  const at = { moment: 'answered', act: arrived.resolve } as const
  proxy.add({ match: { method: 'POST' }, times: 1, fault: { at } })
  await user.write('a', 'content')
  await asked.promise
  await user.drive.rename(ROOT, 'a', ROOT, 'a~')
  mayAnswer.resolve()
  await arrived.promise
  await user.drop()
  user = await account.open()
  await user.listing.refreshNow()
  expect(await user.tree()).toEqual({ 'a~': 'content' })
  await user.drive.rename(ROOT, 'a~', ROOT, 'b')
  await user.drain()
  expect(await user.tree()).toEqual({ b: 'content' })
  expect(await account.service.contents()).toEqual({ b: 'content' })
})

const saves = {
  once: ['new'],
  'three times': ['one', 'two', 'new'],
}

it.each(Object.entries(saves))(
  'a file that was renamed while it is sent, and written %s at once, leaves nothing at its old name',
  async (_, contents) => {
    const account = await AccountInProcess.start()
    const { proxy } = account.service
    const user = await account.open()
    const mayArrive = deferred()
    const isSent = deferred()
    const before = (): Promise<void> => {
      isSent.resolve()
      return mayArrive.promise
    }
    proxy.add({ match: UPLOAD, times: 1, fault: { before } })
    await user.write('a', 'old')
    await isSent.promise
    await user.rename('a', 'b')
    for (const content of contents) await user.write('b', content)
    // Of two uploads at the same time, the one that began last ends first.
    await expect.poll(() => account.service.uploads()).toEqual(['b'])
    const isStored = () => user.outbox.named('b').some((put) => put.phase === 'confirmed')
    await expect.poll(isStored).toBe(true)
    const isProven = deferred()
    const mayBeProven = deferred()
    const listed = (): Promise<void> => {
      isProven.resolve()
      return mayBeProven.promise
    }
    proxy.add({ match: { path: /download/ }, times: 1, fault: { before: listed } })
    mayArrive.resolve()
    await isProven.promise
    await user.listing.refreshNow()
    mayBeProven.resolve()
    await user.drain()
    await user.listing.refreshNow()
    expect(await user.tree()).toEqual({ b: 'new' })
    expect(await account.service.contents()).toEqual({ b: 'new' })
  },
)
