import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

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
