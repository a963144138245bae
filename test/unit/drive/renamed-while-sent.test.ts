import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

it('a file that becomes a backup in the moment its upload begins is one file after a kill', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-renamed-while-sent-'))
  const service = await TestService.start(join(dir, 'service'))
  const { proxy, token } = service
  const home = { url: proxy.url, token, dir: join(dir, 'state'), writeBack: true }
  let user = await DriveInProcess.open(home)
  onTestFinished(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })
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
  const { handle } = await user.drive.create(ROOT, 'a', 0o644)
  await user.drive.write(handle, Buffer.from('content'), 0)
  await user.drive.flush(handle)
  await user.drive.release(handle)
  await asked.promise
  await user.drive.rename(ROOT, 'a', ROOT, 'a~')
  mayAnswer.resolve()
  await arrived.promise
  await user.drop()
  user = await DriveInProcess.open(home)
  await user.listing.refreshNow()
  expect(await user.tree()).toEqual({ 'a~': 'content' })
  await user.drive.rename(ROOT, 'a~', ROOT, 'b')
  await user.drain()
  expect(await user.tree()).toEqual({ b: 'content' })
  expect(await service.contents()).toEqual({ b: 'content' })
})
