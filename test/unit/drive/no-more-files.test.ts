import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Intent } from '../../../src/intents/intent.ts'
import { isDone } from '../../../src/intents/rules.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { canMountSmallDisk } from '../../support/fuse.ts'
import { BUSY, UPLOAD } from '../../support/uploads.ts'
import { mountSmallDisk, unmountSmallDisk, useUpFiles } from '../../support/small-disk.ts'

/** What the first of these that fails is refused with. */
async function firstRefused<T>(
  all: readonly T[],
  task: (each: T) => Promise<unknown>,
): Promise<unknown> {
  for (const each of all) {
    try {
      await task(each)
    } catch (error) {
      return error
    }
  }
  return undefined
}

/** A file system may have room for bytes, and for no further file. */
describe.runIf(canMountSmallDisk())('on a disk that takes no more files', () => {
  let account: AccountInProcess
  let disk: string
  let user: DriveInProcess
  beforeEach(async () => {
    account = await AccountInProcess.start()
    disk = join(account.dir, 'disk')
    mkdirSync(disk)
    mountSmallDisk(disk, 30 * 2 ** 20, 400)
    user = await account.open({}, 'disk/state')
    await user.makeDirectory('F')
    await user.write('F/x', 'x')
    await user.write('file', 'content')
    await user.drain()
  })
  afterEach(async () => {
    await user.drop()
    unmountSmallDisk(disk)
  })

  const places = (): readonly string[] =>
    readdirSync(dirname(user.outbox.directory(user.outbox.nextId())))

  it.each([
    ['file', 'F/file'],
    ['F/x', 'x'],
    ['file', 'other'],
  ])('a move of %s to %s tells that it is full, and changes nothing', async (from, to) => {
    const before = await user.tree()
    const makeRoom = useUpFiles(disk)
    await expect(user.rename(from, to)).rejects.toMatchObject({ code: 'local-disk-full' })
    makeRoom()
    expect(await user.tree()).toEqual(before)
    await user.rename(from, to)
    await user.drain()
    expect(Object.keys(await user.tree())).toContain(to)
  })

  it.each(['content that waits', 'content that is stored'])(
    'a rename of what could not be closed, in the place of %s, changes nothing',
    async (what) => {
      if (what === 'content that waits') account.service.proxy.add(BUSY)
      await user.write('file', 'old')
      if (what === 'content that is stored') await user.drain()
      const handle = await user.open('file', true)
      await user.drive.write(handle, Buffer.from('new'), 0)
      const makeRoom = useUpFiles(disk)
      const full = { code: 'local-disk-full' }
      await expect(user.drive.flush(handle)).rejects.toMatchObject(full)
      await expect(user.rename('file', 'other')).rejects.toMatchObject(full)
      expect(await user.names()).toEqual(['F', 'file'])
      makeRoom()
      await user.rename('file', 'other')
      await user.drive.release(handle)
      expect(await user.tree()).toEqual({ 'F/x': 'x', other: 'new' })
      expect(user.outbox.intents().filter(({ id, supersedes }) => supersedes.includes(id))).toEqual(
        [],
      )
    },
  )

  it('a rename of what is being sent takes no more of it', async () => {
    account.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    await user.write('file', 'new')
    const isSent = ({ id }: Intent): boolean => user.drive.uploader.isRunning(id)
    await expect.poll(() => user.outbox.named('file').some(isSent)).toBe(true)
    const before = places()
    const makeRoom = useUpFiles(disk, 2)
    await expect(user.rename('file', 'other')).rejects.toMatchObject({ code: 'local-disk-full' })
    makeRoom()
    expect(places()).toEqual(before)
    expect(await user.tree()).toEqual({ 'F/x': 'x', file: 'new' })
  })

  it('a removal is taken by means of the reserve', async () => {
    useUpFiles(disk)
    await user.remove('file')
    await user.drain()
    expect(await user.tree()).toEqual({ 'F/x': 'x' })
  })

  it('a removal tells that it is full, takes no more of it, and comes with the next try', async () => {
    const before = places()
    rmSync(join(disk, 'state', 'reserve.files'), { recursive: true })
    const makeRoom = useUpFiles(disk)
    await expect(user.remove('file')).rejects.toMatchObject({ code: 'local-disk-full' })
    makeRoom()
    expect(places()).toEqual(before)
    expect(await user.read('file')).toBe('content')
    await user.remove('file')
    await user.drain()
    expect(await user.tree()).toEqual({ 'F/x': 'x' })
  })

  it('a change in a folder tells that it is full, and comes with the next try', async () => {
    const makeRoom = useUpFiles(disk)
    await expect(user.write('F/y', 'y')).rejects.toMatchObject({ code: 'local-disk-full' })
    makeRoom()
    await user.write('F/y', 'y')
    await user.drain()
    expect(await user.tree()).toEqual({ 'F/x': 'x', 'F/y': 'y', file: 'content' })
  })

  it.each([1, 2, 3, 4, 5])(
    'a change in a folder that is refused with room for %s files keeps nothing from the service',
    async (left) => {
      const makeRoom = useUpFiles(disk, left)
      const isTaken = await user.write('F/y', 'y').then(
        () => true,
        (error: unknown) => {
          expect(error).toMatchObject({ code: 'local-disk-full' })
          return false
        },
      )
      makeRoom()
      await user.drain()
      await user.write('F/z', 'z')
      await user.drain()
      const y = isTaken ? { 'F/y': 'y' } : {}
      expect(await user.tree()).toEqual({ 'F/x': 'x', 'F/z': 'z', file: 'content', ...y })
    },
  )

  it('a change in a folder that was renamed, too', async () => {
    const isBack = account.service.proxy.add(BUSY)
    await user.rename('F', 'G')
    const makeRoom = useUpFiles(disk)
    await expect(user.write('G/y', 'y')).rejects.toMatchObject({ code: 'local-disk-full' })
    makeRoom()
    await user.write('G/y', 'y')
    isBack()
    await user.drain()
    expect(await user.tree()).toEqual({ 'G/x': 'x', 'G/y': 'y', file: 'content' })
  })

  const cases = [0, 1, 3].flatMap((left) =>
    ['one folder', 'a folder and the root'].flatMap((where) =>
      [true, false].map((isKilled) => ({ left, where, isKilled })),
    ),
  )
  it.each(cases)(
    'what used it up in $where is stored, and gives way ($left files more, killed: $isKilled)',
    async ({ left, where, isKilled }) => {
      const isBack = account.service.proxy.add(BUSY)
      await user.makeDirectory('G')
      const isInRoot = (at: number): boolean => where !== 'one folder' && at % 9 === 0
      const places = Array.from({ length: 500 }, (_, at) => (isInRoot(at) ? `${at}` : `G/${at}`))
      const refused = await firstRefused(places, (path) => user.write(path, path))
      expect(refused).toMatchObject({ code: 'local-disk-full' })
      useUpFiles(disk, left)
      const wanted = await user.tree()
      isBack()
      if (isKilled) {
        await user.drop()
        user = await account.open({}, 'disk/state')
      }
      await user.drain()
      expect(await user.tree()).toEqual(wanted)
      expect(user.outbox.intents().filter((intent) => !isDone(intent))).toEqual([])
      await user.write('more', 'more')
    },
  )
})
