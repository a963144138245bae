import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import type { PinReport } from '../../../src/drive/pins.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { eventually } from '../../support/eventually.ts'

const MB = 1_000_000

let account: AccountInProcess
let user: DriveInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
  user = await account.open()
})

const pin = (path: string): Promise<PinReport> => user.drive.commands.pin(path.split('/'))
const pins = (): readonly PinReport[] => user.drive.commands.pins.report()
const pinned = (): readonly string[] => pins().map(({ name, state }) => `${name}: ${state}`)

async function until(...wanted: readonly string[]): Promise<void> {
  await eventually(() => {
    expect(pinned()).toEqual(wanted)
  })
}

/** Of bytes that no zip and no probe makes smaller. */
async function upload(name: string, bytes: number): Promise<string> {
  const bagId = await account.service.upload(name, randomBytes(bytes))
  await user.listing.refreshNow()
  return bagId
}

async function withCache(cacheBytes: number, state: string): Promise<void> {
  await user.drop()
  user = await account.open({ limits: { timeoutMs: 10_000, cacheBytes } }, state)
}

const downloads = (): number =>
  account.service.proxy.requests.filter(({ path }) => path.includes('download')).length

describe('a pinned name', () => {
  it('is fetched, stays in the cache, and is read without the network; unpinned it goes as any other', async () => {
    await withCache(4 * MB, 'small')
    await upload('a', 1.5 * MB)
    for (const name of ['b', 'c', 'd']) await upload(name, 1.5 * MB)
    expect(await pin('a')).toMatchObject({ name: 'a', bytes: 1.5 * MB, state: 'coming' })
    await until('a: here')
    for (const name of ['b', 'c', 'd', 'b']) await user.read(name)
    const before = downloads()
    await account.service.proxy.down()
    expect(await user.read('a')).not.toBe('')
    expect(downloads()).toBe(before)
    await account.service.proxy.up()
    expect(await user.drive.commands.pins.unpin(['a'])).toBe('a')
    for (const name of ['c', 'd', 'b']) await user.read(name)
    expect((await user.drive.commands.explain(['a'])).places).not.toContain('cache')
  })

  it('is a folder with all that is in it, also when something in it is named', async () => {
    await user.makeDirectory('folder')
    await user.write('folder/x', randomBytes(MB))
    await user.drive.commands.sync()
    await user.drop()
    user = await account.open({}, 'other')
    expect(await pin('folder/x')).toMatchObject({ name: 'folder' })
    await until('folder: here')
    expect((await user.drive.commands.explain(['folder', 'x'])).pin).toMatchObject({
      name: 'folder',
    })
    await account.service.proxy.down()
    expect((await user.drive.getAttributes(await user.node('folder/x'))).size).toBe(MB)
    await user.drive.commands.pins.unpin(['folder', 'x'])
    expect(pinned()).toEqual([])
  })

  it.each([[''], ['nothing']])('cannot be %j', async (path) => {
    const names = path.split('/').filter(Boolean)
    await expect(user.drive.commands.pin(names)).rejects.toMatchObject({
      code: path === 'nothing' ? 'not-found' : 'usage',
    })
    await expect(user.drive.commands.pins.unpin(names)).rejects.toMatchObject({ code: 'not-found' })
    expect(pinned()).toEqual([])
  })

  it('is known to the next mount, which evicts nothing of it and goes on with what is missing', async () => {
    await upload('a', 2 * MB)
    const b = await upload('b', 2 * MB)
    await pin('a')
    await until('a: here')
    account.service.proxy.add({ match: { path: /download/ }, fault: { answer: { status: 500 } } })
    await pin('b')
    await until('a: here', 'b: waits')
    expect(pins()[1]?.reason).toContain('500')
    await user.drop()
    account.service.proxy.clear()
    const before = downloads()
    const reopen = async (cacheBytes: number): Promise<void> => {
      user = await account.open({ limits: { timeoutMs: 10_000, cacheBytes } })
    }
    await reopen(MB)
    await until('a: here', 'b: no-room')
    await user.drop()
    await reopen(4 * MB)
    await until('a: here', 'b: here')
    expect(downloads() - before).toBeLessThanOrEqual(2)
    expect(user.cache.isComplete(toBagId(b))).toBe(true)
  })

  it('is fetched after what programs and warm-ups wait for', async () => {
    const slow = await upload('slow', MB)
    await upload('a', MB / 2)
    await upload('warm', 4 * MB)
    account.service.proxy.add({
      match: { path: new RegExp(`download/${slow}`) },
      fault: { stallResponseAfter: MB / 4 },
    })
    const handle = await user.open('slow')
    const read = Promise.resolve(user.drive.read(handle, Buffer.alloc(100), MB / 2))
    await pin('a')
    const { signal } = new AbortController()
    expect(
      await user.drive.commands.warmUp(['warm'], { onProgress: () => undefined, signal }),
    ).toMatchObject({ bags: 1 })
    expect(pinned()).toEqual(['a: coming'])
    account.service.proxy.clear()
    await user.drive.release(handle)
    await read
    await until('a: here')
  })
})

describe('a version of a pinned name that another machine stores', () => {
  it('is fetched though no program looks, and the old one is kept no more', async () => {
    await user.drop()
    user = await account.open({ settings: { listingTtlMs: 20 } }, 'other')
    const old = await upload('a', MB)
    await pin('a')
    await until('a: here')
    const content = randomBytes(MB)
    const bag = toBagId(await account.service.upload('a', content))
    await account.service.delete(old)
    await eventually(() => {
      expect(user.cache.isComplete(bag)).toBe(true)
    })
    expect(pinned()).toEqual(['a: here'])
    await account.service.proxy.down()
    const handle = await user.open('a')
    const bytes = Buffer.alloc(MB)
    expect(await user.drive.read(handle, bytes, 0)).toBe(MB)
    await user.drive.release(handle)
    expect(bytes.equals(content)).toBe(true)
    await user.cache.clear()
    expect(user.cache.heldOf(toBagId(old)).bytes).toBe(0)
    expect(pinned()).toEqual(['a: here'])
  })

  it('may be none: the pin waits for the name, and can be given up', async () => {
    const bag = await upload('a', MB)
    await pin('a')
    await until('a: here')
    await account.service.delete(bag)
    await user.listing.refreshNow()
    await until('a: missing')
    expect((await user.drive.commands.explain(['a'])).what).toBe('missing')
    await eventually(async () => {
      await user.cache.clear()
      expect(user.cache.stats().bytes).toBe(0)
    })
    await upload('a', MB)
    await until('a: here')
    await account.service.delete((await account.service.list())[0]?.bag_id ?? '')
    await user.listing.refreshNow()
    await until('a: missing')
    expect(await user.drive.commands.pins.unpin(['a'])).toBe('a')
  })
})

describe('a pinned name that is changed here', () => {
  beforeEach(async () => {
    await upload('a', MB)
    await pin('a')
    await until('a: here')
  })

  it('follows a rename, and what has the old name then is not pinned', async () => {
    await user.rename('a', 'b')
    await user.write('a', 'new')
    await until('b: here')
    await user.drain()
    await until('b: here')
    await user.drop()
    user = await account.open()
    await until('b: here')
  })

  it('has its name again when the rename fails', async () => {
    await user.drop()
    user = await account.open({ writeBack: false })
    await upload('other', MB)
    await pin('other')
    await until('a: here', 'other: here')
    account.service.proxy.add({
      match: { method: 'POST' },
      fault: { answer: { status: 400 } },
    })
    await expect(user.rename('a', 'other')).rejects.toMatchObject({
      code: expect.anything() as unknown,
    })
    await eventually(() => {
      expect([...pinned()].sort()).toEqual(['a: here', 'other: here'])
    })
  })

  it.each([
    [
      'a rename over it',
      async () => {
        await user.write('a.tmp', 'new')
        await user.rename('a.tmp', 'a')
      },
    ],
    [
      'a backup beside it',
      async () => {
        await user.rename('a', 'a~')
        await user.write('a', 'new')
        await user.remove('a~')
      },
    ],
    [
      'removing it first',
      async () => {
        await user.remove('a')
        await user.write('a', 'new')
      },
    ],
  ])('stays pinned where a program saves by %s', async (_, save) => {
    await save()
    await user.drain()
    await until('a: here')
    await account.service.proxy.down()
    expect(await user.read('a')).toBe('new')
  })

  it('is pinned no more once it is deleted, or moved into a folder', async () => {
    await upload('b', MB)
    await pin('b')
    await user.makeDirectory('folder')
    await user.remove('a')
    await user.rename('b', 'folder/b')
    await until()
  })

  it('stays where the delete fails', async () => {
    await user.drop()
    user = await account.open({ writeBack: false })
    account.service.proxy.add({ match: { method: 'DELETE' }, fault: { answer: { status: 403 } } })
    await expect(user.remove('a')).rejects.toMatchObject({ code: 'forbidden' })
    await until('a: here')
    expect(await user.drive.lookup(ROOT, 'a')).toMatchObject({ size: MB })
  })
})

describe('pins that the cache has no room for', () => {
  it('are told, and not fetched; they are once there is room', async () => {
    await withCache(4 * MB, 'small')
    await upload('a', 3 * MB)
    await upload('b', 2 * MB)
    await upload('c', MB)
    await pin('a')
    await until('a: here')
    expect(await pin('b')).toMatchObject({ state: 'no-room', lacks: 'cache-size' })
    await pin('c')
    await until('a: here', 'b: no-room', 'c: here')
    await expect(
      user.drive.commands.warmUp(['b'], {
        onProgress: () => undefined,
        signal: new AbortController().signal,
      }),
    ).rejects.toMatchObject({ code: 'too-large' })
    await user.drive.commands.pins.unpin(['a'])
    await until('b: here', 'c: here')
  })

  it('are told to lack the disk where that is full above its floor', async () => {
    await user.drop()
    user = await account.open({ settings: { minFreeBytes: 1e15 } }, 'full')
    await upload('a', MB)
    expect(await pin('a')).toMatchObject({ state: 'no-room', lacks: 'disk' })
  })
})
