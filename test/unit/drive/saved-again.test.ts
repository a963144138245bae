import { expect, it } from 'vitest'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

it('a file that is saved again and again with a backup, unchanged, is stored', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open()
  await user.write('doc', 'same')
  for (let round = 0; round < 2; round += 1) {
    await user.drive.rename(ROOT, 'doc', ROOT, 'doc~')
    await user.write('doc', 'same')
    await user.drive.unlink(ROOT, 'doc~')
  }
  await user.drain()
  expect(await account.service.contents()).toEqual({ doc: 'same' })
  expect(await user.tree()).toEqual({ doc: 'same' })
})
