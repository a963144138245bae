import { expect, it } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'

it('what is closed in a folder while its new name is being stored survives a kill', async () => {
  const account = await AccountInProcess.start()
  const { proxy } = account.service
  let user = await account.open()
  await user.drive.makeDirectory(ROOT, 'F', 0o755)
  await user.write('F/before', 'stored')
  await user.drive.commands.sync()
  // The end of the rename waits for the answer to this.
  const deleting = new Promise<void>((resolve) => {
    proxy.add({
      match: { method: 'DELETE' },
      fault: { silence: true, before: () => Promise.resolve().then(resolve) },
    })
  })
  const uploads = (): number => proxy.requests.filter(({ method }) => method === 'POST').length
  const before = uploads()
  await user.drive.rename(ROOT, 'F', ROOT, 'G')
  // A change that comes before would be sent with the new name.
  await expect.poll(uploads).toBeGreaterThan(before)
  await user.write('G/after', 'closed')
  await deleting
  const renamed = user.outbox.intents().find(({ name }) => name === 'G')
  expect(renamed).toMatchObject({ phase: 'confirmed', changes: { start: 0 } })
  await user.drop()
  proxy.clear()
  user = await account.open()
  const whole = { 'G/before': 'stored', 'G/after': 'closed' }
  expect(await user.tree()).toEqual(whole)
  await user.drain()
  const elsewhere = await account.open({}, 'elsewhere')
  expect(await elsewhere.tree()).toEqual(whole)
})
