import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'

it('what is closed in a folder while its new name is being stored survives a kill', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-renamed-then-changed-'))
  const service = await TestService.start(join(dir, 'service'))
  const { proxy, token } = service
  const home = { url: proxy.url, token, dir: join(dir, 'state'), writeBack: true }
  let user = await DriveInProcess.open(home)
  onTestFinished(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const write = async (path: string, content: string): Promise<void> => {
    const { parent, name } = await user.parent(path)
    const { handle } = await user.drive.create(parent, name, 0o644)
    await user.drive.write(handle, Buffer.from(content), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
  }
  await user.drive.makeDirectory(ROOT, 'F', 0o755)
  await write('F/before', 'stored')
  await user.drive.sync()
  // The end of the rename waits for the answer to this.
  const deleting = new Promise<void>((resolve) => {
    proxy.add({
      match: { method: 'DELETE' },
      fault: { silence: true, before: () => Promise.resolve().then(resolve) },
    })
  })
  await user.drive.rename(ROOT, 'F', ROOT, 'G')
  await write('G/after', 'closed')
  await deleting
  const renamed = user.outbox.intents().find(({ name }) => name === 'G')
  expect(renamed).toMatchObject({ phase: 'confirmed', changes: { start: 0 } })
  await user.drop()
  proxy.clear()
  user = await DriveInProcess.open(home)
  const whole = { 'G/before': 'stored', 'G/after': 'closed' }
  expect(await user.tree()).toEqual(whole)
  await user.drain()
  const elsewhere = await DriveInProcess.open({ ...home, dir: join(dir, 'elsewhere') })
  onTestFinished(() => elsewhere.drop())
  expect(await elsewhere.tree()).toEqual(whole)
})
