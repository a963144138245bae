import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

it('a file that is saved again and again with a backup, unchanged, is stored', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-saved-again-'))
  const service = await TestService.start(join(dir, 'service'))
  const { proxy, token } = service
  const home = { url: proxy.url, token, dir: join(dir, 'state'), writeBack: true }
  const user = await DriveInProcess.open(home)
  onTestFinished(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const write = async (): Promise<void> => {
    const { handle } = await user.drive.create(ROOT, 'doc', 0o644)
    await user.drive.write(handle, Buffer.from('same'), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
  }
  await write()
  for (let round = 0; round < 2; round += 1) {
    await user.drive.rename(ROOT, 'doc', ROOT, 'doc~')
    await write()
    await user.drive.unlink(ROOT, 'doc~')
  }
  await user.drain()
  expect(await service.contents()).toEqual({ doc: 'same' })
  expect(await user.tree()).toEqual({ doc: 'same' })
})
