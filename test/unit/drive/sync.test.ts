import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ROOT } from '../../../src/drive/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

let dir: string
let service: TestService
let user: DriveInProcess
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-sync-'))
  service = await TestService.start(join(dir, 'service'))
  const { token, proxy } = service
  user = await DriveInProcess.open({ url: proxy.url, token, dir, writeBack: true })
})
afterEach(async () => {
  await user.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

it('sync tries once more what was being tried already, and failed', async () => {
  const { drive } = user
  const post = { method: 'POST' }
  service.proxy.add({
    match: post,
    times: 1,
    fault: { latencyMs: 500, answer: { status: 500 } },
  })
  const { handle } = await drive.create(ROOT, 'new', 0o644)
  await drive.write(handle, Buffer.from('new'), 0)
  await drive.flush(handle)
  const posts = () => service.proxy.requests.filter(({ method }) => method === post.method)
  await expect.poll(posts, { timeout: 20_000 }).toHaveLength(1)
  await drive.sync()
  expect(await service.contents()).toEqual({ new: 'new' })
  await drive.release(handle)
})
