import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import type { WarmedUp, WarmUpProgress } from '../../../src/drive/warm-up.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const MB = 1_000_000
const DOWNLOAD = { path: /download/ }

let account: AccountInProcess
let user: DriveInProcess
let progress: WarmUpProgress[]
beforeEach(async () => {
  progress = []
  account = await AccountInProcess.start()
  user = await account.open()
})

async function warmUp(path: string, stop = new AbortController()): Promise<WarmedUp> {
  const names = path.split('/').filter((name) => name !== '')
  const onProgress = (each: WarmUpProgress): void => {
    progress.push(each)
  }
  return user.drive.commands.warmUp(names, { onProgress, signal: stop.signal })
}

async function placesOf(path: string): Promise<readonly string[]> {
  return (await user.drive.commands.explain([path])).places
}

/** Of bytes that no zip and no probe makes smaller. */
async function upload(name: string, bytes: number): Promise<string> {
  const bagId = await account.service.upload(name, randomBytes(bytes))
  await user.listing.refreshNow()
  return bagId
}

describe('a warm-up', () => {
  it('fetches a file: it is read without the network then', async () => {
    await upload('a', 3 * MB)
    await upload('b', 2 * MB)
    expect(await warmUp('a')).toEqual({ bags: 1, bytes: 3 * MB, failed: [] })
    expect(await placesOf('a')).toEqual(['service', 'cache'])
    expect(await placesOf('b')).not.toContain('cache')
    expect(progress.at(0)).toEqual({ bags: 0, ofBags: 1, bytes: 0, ofBytes: 3 * MB })
    expect(progress.at(-1)).toEqual({ bags: 1, ofBags: 1, bytes: 3 * MB, ofBytes: 3 * MB })
    await account.service.proxy.down()
    expect(await user.read('a')).not.toBe('')
  })

  it('fetches all of an account, and what is here already not again', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) await upload(name, MB)
    const refused = { answer: { status: 500 } }
    account.service.proxy.add({ match: { method: 'POST' }, fault: refused })
    await user.write('new', 'waits to be stored, and is here')
    await warmUp('a')
    expect(await warmUp('')).toMatchObject({ bags: 6, bytes: 6 * MB })
    const { requests } = account.service.proxy
    const before = requests.length
    expect(await warmUp('')).toMatchObject({ bags: 6, bytes: 6 * MB })
    expect(requests.slice(before).filter(({ path }) => DOWNLOAD.path.test(path))).toEqual([])
  })

  it('fetches a folder with all that is in it, also for one file of it', async () => {
    await user.makeDirectory('folder')
    await user.write('folder/x', randomBytes(2 * MB))
    await user.write('folder/y', 'content')
    await user.drive.commands.sync()
    await user.drop()
    user = await account.open({}, 'other')
    expect(await warmUp('folder/y')).toMatchObject({ bags: 1, failed: [] })
    expect(await placesOf('folder')).toEqual(['service', 'cache'])
    await account.service.proxy.down()
    expect((await user.drive.getAttributes(await user.node('folder/x'))).size).toBe(2 * MB)
  })

  it('fetches nothing when the cache cannot hold all of it, and says so', async () => {
    await user.drop()
    user = await account.open({ limits: { timeoutMs: 10_000, cacheBytes: 2 * MB } }, 'small')
    await upload('a', 1.5 * MB)
    await upload('b', 1.5 * MB)
    await expect(warmUp('')).rejects.toMatchObject({
      code: 'too-large',
      facts: { hint: expect.stringContaining('--cache-size') as unknown },
    })
    expect(progress).toEqual([])
    expect(await warmUp('a')).toMatchObject({ bags: 1 })
  })

  it('gives up other content first, and nothing that it is to fetch', async () => {
    await user.drop()
    user = await account.open({ limits: { timeoutMs: 10_000, cacheBytes: 4 * MB } }, 'small')
    await upload('first', 1.5 * MB)
    await warmUp('first')
    const other = await upload('other', 1.5 * MB)
    await warmUp('other')
    await account.service.delete(other)
    await upload('last', 2 * MB)
    expect(await warmUp('')).toEqual({ bags: 2, bytes: 3.5 * MB, failed: [] })
    for (const name of ['first', 'last']) expect(await placesOf(name)).toContain('cache')
  })

  it('goes on with the rest when one of them cannot be had, and tells which', async () => {
    const gone = await upload('gone', MB)
    await upload('there', MB)
    await account.service.delete(gone)
    const { bags, failed } = await warmUp('')
    expect(bags).toBe(1)
    expect(failed).toMatchObject([{ name: 'gone' }])
  })

  it('ends when the service is away, and when it is given up', async () => {
    await upload('a', 3 * MB)
    const stop = new AbortController()
    account.service.proxy.add({ match: DOWNLOAD, fault: { stallResponseAfter: MB } })
    const given = warmUp('a', stop)
    await expect.poll(() => user.cache.stats().downloads[0]?.received).toBeGreaterThan(0)
    stop.abort(new DriveError('interrupted', 'by the test'))
    await expect(given).rejects.toMatchObject({ code: 'interrupted' })
    await account.service.proxy.down()
    await expect(warmUp('a')).rejects.toMatchObject({ code: 'unavailable' })
  })

  it.each(['nothing', '.bagfs/status'])('of %s fetches nothing', async (path) => {
    await expect(warmUp(path)).rejects.toMatchObject({ code: expect.any(String) as unknown })
  })
})

describe('a refresh', () => {
  it('shows at once what another machine stored, and rejects when the service is away', async () => {
    expect(await user.names()).toEqual([])
    await account.service.upload('new', 'content')
    expect(await user.names()).toEqual([])
    expect(await user.drive.commands.refresh()).toBe(1)
    expect(await user.drive.lookup(ROOT, 'new')).toMatchObject({ size: 7 })
    await account.service.proxy.down()
    await expect(user.drive.commands.refresh()).rejects.toMatchObject({ code: 'unavailable' })
  })
})
