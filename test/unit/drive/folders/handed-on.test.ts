import { expect, it } from 'vitest'
import { deferred } from '../../../../src/domain/deferred.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'

it('a file that is renamed over another one, while that is being stored, is stored with what it had until it is closed', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open()
  await user.drive.makeDirectory(ROOT, 'F', 0o755)
  await user.write('F/h', 'newer')
  const folder = await user.node('F')
  const { handle } = await user.drive.create(folder, 'also', 0o644)
  await user.drive.write(handle, Buffer.from('half'), 0)
  const [sending, sent] = [deferred(), deferred()]
  account.service.proxy.add({
    match: { method: 'POST' },
    times: 1,
    fault: {
      before: () => {
        sending.resolve()
        return sent.promise
      },
    },
  })
  const stored = user.drive.commands.sync()
  await sending.promise
  await user.drive.rename(folder, 'also', folder, 'h')
  sent.resolve()
  await stored
  await user.write('F/other', 'b')
  await user.drive.commands.sync()
  const other = await account.open({}, 'other')
  expect(await other.tree()).toEqual({ 'F/h': 'newer', 'F/other': 'b' })
  await user.drive.flush(handle)
  await user.drive.release(handle)
  await user.drive.commands.sync()
  await other.listing.refreshNow()
  expect(await other.tree()).toEqual({ 'F/h': 'half', 'F/other': 'b' })
})
