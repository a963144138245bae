import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { hasGone } from '../../../src/outbox/lost-answer.ts'
import type { UploaderDeps } from '../../../src/outbox/ports.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

const DELETE = { method: 'DELETE' }
const DOWNLOAD = { method: 'GET', path: /download/ }

describe('an rm in mode through whose answer was lost', () => {
  let dir: string
  let service: TestService
  let user: DriveInProcess
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-lost-delete-'))
    service = await TestService.start(join(dir, 'service'))
    await service.upload('file', 'content')
    const { proxy, token } = service
    const limits = { timeoutMs: 1_000, cacheBytes: 1e8 }
    const home = { url: proxy.url, token, dir: join(dir, 'state'), writeBack: false, limits }
    user = await DriveInProcess.open(home)
    await user.read('file')
  })
  afterEach(async () => {
    service.proxy.clear()
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it.each([
    ['too late', { answerLatencyMs: 3_000 }],
    ['never', { loseAnswer: true }],
  ])('succeeds when the bag is gone: answered %s', async (_when, fault) => {
    service.proxy.add({ match: DELETE, fault })
    await user.drive.unlink(ROOT, 'file')
    expect(await service.contents()).toEqual({})
    expect(await user.tree()).toEqual({})
    await user.drain()
  })

  it('succeeds when the account has it no more, and the network does', async () => {
    service.proxy.add({ match: DELETE, fault: { loseAnswer: true } })
    service.proxy.add({ match: DOWNLOAD, fault: { answer: { status: 200, body: 'content' } } })
    await user.drive.unlink(ROOT, 'file')
    expect(await service.contents()).toEqual({})
    await user.drain()
  })

  it('fails when the bag is there, and happens later', async () => {
    const fault = { silence: true }
    service.proxy.add({ match: DELETE, times: 1, fault })
    await expect(user.drive.unlink(ROOT, 'file')).rejects.toMatchObject({ code: 'timed-out' })
    await user.drain()
    expect(await service.contents()).toEqual({})
  })

  it('fails as it did when nothing can be asked', async () => {
    service.proxy.add({ match: DELETE, fault: { loseAnswer: true } })
    service.proxy.add({ match: { method: 'GET' }, fault: { answer: { status: 503 } } })
    const code = 'unavailable'
    const message = expect.stringContaining('Deleting bag') as string
    await expect(user.drive.unlink(ROOT, 'file')).rejects.toMatchObject({ code, message })
    service.proxy.clear()
    await user.drain()
  })
})

it('whether a bag is gone is asked again when nothing was sent, as after a call without an answer', async () => {
  const notAsked = new DriveError('timed-out', 'The service does not answer.', { notAsked: true })
  const gone = new DriveError('gone', 'There is no such bag.', { status: 404 })
  const download = vi.fn().mockRejectedValueOnce(notAsked).mockRejectedValueOnce(gone)
  const sleep = vi.fn(() => Promise.resolve())
  const service = { ...({} as UploaderDeps['service']), download }
  const listing = { refreshNow: () => Promise.reject(gone), current: () => undefined }
  const deps = { service, listing, clock: { ...systemClock, sleep }, log: silentLogger }
  const { signal } = new AbortController()
  expect(await hasGone(deps, toBagId('bag'), { wasListed: true }, signal)).toBe(true)
  expect(sleep).toHaveBeenCalledOnce()
})
