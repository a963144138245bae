import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { fileNameOf, toBagId, type HandleId } from '../../../src/domain/ids.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

describe('an upload of content that another name of the same file has', () => {
  let dir: string
  let service: TestService
  let user: DriveInProcess
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-same-upload-'))
    service = await TestService.start(join(dir, 'service'))
    const { proxy, token } = service
    user = await DriveInProcess.open({
      ...{ url: proxy.url, token, dir: join(dir, 'state'), writeBack: false },
    })
  })
  afterEach(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const finish = async (handle: HandleId, content: string): Promise<void> => {
    await user.drive.write(handle, Buffer.from(content), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
  }

  it('leaves that name in view while it is sent, also when it was saved by a temporary file', async () => {
    await service.upload('doc', 'same')
    const [older] = await service.list()
    await service.upload('doc', 'newer')
    await user.listing.refreshNow()
    const marked = `doc (${fileNameOf(toBagId(older?.bag_id ?? '')).slice(0, 8)})`
    const { handle } = await user.drive.create(ROOT, '.doc.swp', 0o644)
    await finish(handle, 'same')
    const begun = deferred()
    const maySend = deferred()
    const before = (): Promise<void> => {
      begun.resolve()
      return maySend.promise
    }
    service.proxy.add({ match: { method: 'POST' }, fault: { before } })
    const saved = user.drive.rename(ROOT, '.doc.swp', ROOT, 'doc')
    await begun.promise
    await user.listing.refreshNow()
    expect(await user.tree()).toEqual({ doc: 'same', [marked]: 'same' })
    maySend.resolve()
    await saved
    await user.drain()
    expect(await service.contents()).toEqual({ doc: 'same' })
  })

  it('takes that name away only if it gets its bag, also when no listing has that yet', async () => {
    const { handle } = await user.drive.create(ROOT, 'doc', 0o644)
    const mayProve = deferred()
    service.proxy.add({
      match: { path: /download/ },
      times: 1,
      fault: { before: () => mayProve.promise },
    })
    await finish(handle, 'same')
    const [ours] = await service.list()
    await service.upload('doc', 'newer')
    mayProve.resolve()
    await expect.poll(() => user.outbox.intents()[0]?.phase).toBe('confirmed')
    const others = (await service.list()).filter(({ bag_id }) => bag_id !== ours?.bag_id)
    const lift = service.proxy.add({
      match: { path: /files_list/ },
      fault: {
        answer: {
          ...{ status: 200, headers: { 'content-type': 'application/json' } },
          body: JSON.stringify(others),
        },
      },
    })
    await user.listing.refreshNow()
    const marked = `doc (${fileNameOf(toBagId(ours?.bag_id ?? '')).slice(0, 8)})`
    expect(await user.tree()).toEqual({ doc: 'newer', [marked]: 'same' })
    const begun = deferred()
    const maySend = deferred()
    const before = (): Promise<void> => {
      begun.resolve()
      return maySend.promise
    }
    service.proxy.add({ match: { method: 'POST' }, fault: { before } })
    const closed = finish(await user.open('doc', true), 'same')
    await begun.promise
    expect(await user.tree()).toEqual({ doc: 'same', [marked]: 'same' })
    maySend.resolve()
    await closed
    lift()
    await user.drain()
    await user.listing.refreshNow()
    expect(await user.tree()).toEqual({ doc: 'same' })
    expect(await service.contents()).toEqual({ doc: 'same' })
  })
})
