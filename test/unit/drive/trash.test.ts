import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import type { FaultRule } from '../../support/fault-proxy.ts'
import { BUSY, UPLOAD } from '../../support/uploads.ts'
import { kept, restore } from '../../support/trash.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'

const DOWNLOAD = { method: 'GET', path: /download/ }

const downloadsOf = ({ service }: AccountInProcess): number =>
  service.events.filter(({ path }) => path.includes('download')).length

describe.each([false, true])('what is deleted (write back: %s)', (writeBack) => {
  it('is kept here, gone at the service at once, and can be restored', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.write('file', 'content')
    await user.drain()
    await user.drive.unlink(ROOT, 'file')
    await user.drain()
    expect(await account.service.contents()).toEqual({})
    expect(kept(user)).toEqual(['file deleted 7'])
    await restore(user, 'file')
    await user.drain()
    expect(await account.service.contents()).toEqual({ file: 'content' })
    expect(await user.tree()).toEqual({ file: 'content' })
    expect(kept(user)).toEqual([])
  })

  it('is kept each time when it is replaced, the newest first', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    for (const content of ['1', '22', '333']) {
      await user.write('file', content)
      await user.drain()
    }
    await expect.poll(() => kept(user)).toEqual(['file replaced 2', 'file replaced 1'])
    await expect(restore(user, 'file')).rejects.toMatchObject({ code: 'exists' })
    await restore(user, 'file', 'before')
    await user.drain()
    expect(await account.service.contents()).toEqual({ file: '333', before: '22' })
  })

  it('is fetched first when it is small and was never read here', async () => {
    const account = await AccountInProcess.start()
    // Nothing looks into a file of this name before it is removed.
    await account.service.upload('file.txt', 'from elsewhere', 'described')
    const user = await account.open({ writeBack })
    await user.drive.unlink(ROOT, 'file.txt')
    await user.drain()
    expect(kept(user)).toEqual(['file.txt deleted 14'])
    await restore(user, 'file.txt')
    await user.drain()
    expect(await account.service.list()).toMatchObject([
      { filename: 'file.txt', description: 'described' },
    ])
    expect(await user.read('file.txt')).toBe('from elsewhere')
  })
})

describe('the trash of what is not gone', () => {
  it.each([
    ['a new name', (user: DriveInProcess) => user.drive.rename(ROOT, 'file', ROOT, 'renamed')],
    [
      'a new description',
      async (user: DriveInProcess) =>
        user.drive.extended.set(
          await user.node('file'),
          'user.bagfs.description',
          Buffer.from('new'),
        ),
    ],
    ['the same content again', (user: DriveInProcess) => user.write('file', 'content')],
    [
      'a place in a folder',
      async (user: DriveInProcess) => {
        await user.drive.makeDirectory(ROOT, 'folder', 0o755)
        await user.drive.rename(ROOT, 'file', await user.node('folder'), 'file')
      },
    ],
  ])('is not in the trash: %s', async (_what, change) => {
    for (const isOurs of [true, false]) {
      const account = await AccountInProcess.start()
      const user = await account.open({ writeBack: false })
      if (isOurs) await user.write('file', 'content')
      else await account.service.upload('file', 'content')
      await user.listing.refreshNow()
      await user.drain()
      await change(user)
      await user.drain()
      expect(kept(user)).toEqual([])
    }
  })

  it('hides what came back as the same bag', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open()
    for (const content of ['on', 'off', 'on']) {
      await user.write('switch', content)
      await user.drain()
    }
    expect(kept(user)).toEqual(['switch replaced 3'])
    await user.drive.unlink(ROOT, 'switch')
    await user.drain()
    expect(kept(user)).toEqual(['switch deleted 2', 'switch replaced 3'])
  })
})

describe('a folder', () => {
  it('is kept as it was, in each version that was replaced, and comes back whole', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open()
    await user.drive.makeDirectory(ROOT, 'folder', 0o755)
    await user.write('folder/one', 'first')
    await user.drain()
    await user.write('folder/one', 'second')
    await user.write('folder/two', 'more')
    await user.drain()
    await expect.poll(() => kept(user)).toMatchObject([/^folder replaced \d+$/])
    await restore(user, 'folder', 'before')
    await user.drain()
    const now = { 'folder/one': 'second', 'folder/two': 'more', 'before/one': 'first' }
    expect(await user.tree()).toEqual(now)
    const other = await account.open({}, 'elsewhere')
    expect(await other.tree()).toEqual(now)
  })
})

describe.each([false, true])(
  'a stored file that moves into a folder (write back: %s)',
  (writeBack) => {
    const BAG = 'precious'
    const RESTS = { writeBack, settings: { folderRestMs: 60_000 } }

    /** Stored files, and a folder of this machine that rests for longer than a test takes. */
    const storedBeside = async (files: Readonly<Record<string, string>>) => {
      const account = await AccountInProcess.start()
      const user = await account.open(RESTS)
      for (const [name, content] of Object.entries(files)) await user.write(name, content)
      await user.drain()
      await user.makeDirectory('folder')
      await user.write('folder/own', 'own')
      return { account, user }
    }

    /** A stored file and a stored folder. */
    const allStored = async () => {
      const account = await AccountInProcess.start()
      const user = await account.open({ writeBack })
      await user.makeDirectory('folder')
      await user.write('folder/own', 'own')
      await user.write('file', BAG)
      await user.drain()
      return { account, user }
    }

    /** What was written in the place of the file is in the folder, and the file in the trash. */
    const expectReplaced = async (user: DriveInProcess): Promise<void> => {
      expect(await user.tree()).toEqual({ 'folder/own': 'own', 'folder/file': 'new' })
      expect(kept(user).filter((item) => item.endsWith(` ${BAG.length}`))).toHaveLength(1)
    }

    it.each<[string, (user: DriveInProcess) => Promise<void>]>([
      ['removed there', (user) => user.remove('folder/file')],
      ['replaced there', (user) => user.write('folder/file', 'other')],
      [
        'replaced there by a rename',
        async (user) => {
          await user.write('folder/new', 'other')
          await user.rename('folder/new', 'folder/file')
        },
      ],
      [
        'removed under another name',
        async (user) => {
          await user.rename('folder/file', 'folder/renamed')
          await user.remove('folder/renamed')
        },
      ],
      ['removed with the folder', (user) => user.remove('folder')],
      [
        'replaced there by what moves in',
        async (user) => {
          await user.write('other', 'other')
          await user.rename('other', 'folder/file')
        },
      ],
      [
        'removed where its directory moved to',
        async (user) => {
          await user.makeDirectory('folder/dir')
          await user.rename('folder/file', 'folder/dir/file')
          await user.makeDirectory('second')
          await user.rename('folder/dir', 'second/dir')
          await user.remove('second/dir/file')
        },
      ],
      [
        'removed in the root, where its directory moved to',
        async (user) => {
          await user.makeDirectory('folder/dir')
          await user.rename('folder/file', 'folder/dir/file')
          await user.rename('folder/dir', 'second')
          await user.remove('second/file')
        },
      ],
      [
        'removed where its folder moved to',
        async (user) => {
          await user.makeDirectory('second')
          await user.rename('folder', 'second/folder')
          await user.remove('second/folder/file')
        },
      ],
      [
        'removed there, and its name is a folder now',
        async (user) => {
          await user.makeDirectory('folder/dir')
          await user.remove('folder/file')
          await user.rename('folder/dir', 'file')
          await user.drain()
          await user.remove('file')
        },
      ],
      [
        'removed in a folder that got another name',
        async (user) => {
          await user.rename('folder', 'renamed')
          await user.remove('renamed/file')
        },
      ],
    ])('is in the trash when it is %s before that is stored', async (_how, change) => {
      const { user } = await storedBeside({ file: BAG })
      await user.rename('file', 'folder/file')
      await change(user)
      await user.drain()
      expect(kept(user)).toEqual([`file deleted ${BAG.length}`])
      await restore(user, 'file')
      expect(await user.read('file')).toBe(BAG)
    })

    it('is in the trash when what took its place there is removed, too', async () => {
      const { user } = await storedBeside({ one: 'one', two: 'two' })
      for (const name of ['one', 'two']) await user.rename(name, 'folder/file')
      await user.remove('folder/file')
      await user.drain()
      expect(kept(user).toSorted()).toEqual(['one deleted 3', 'two deleted 3'])
    })

    it('is in the trash when it is removed there after a kill', async () => {
      const { account, user: killed } = await storedBeside({ file: BAG })
      await killed.rename('file', 'folder/file')
      await killed.drop()
      const user = await account.open(RESTS)
      await user.remove('folder/file')
      await user.drain()
      expect(kept(user)).toEqual([`file deleted ${BAG.length}`])
    })

    it.each<[string, (user: DriveInProcess) => Promise<unknown>]>([
      ['written anew', (user) => user.write('file', 'new').catch(String)],
      [
        'removed and written anew',
        async (user) => {
          await user.remove('file')
          await user.write('file', 'new').catch(String)
        },
      ],
    ])('is in the trash when it was %s before it moved', async (_how, change) => {
      const { account, user } = await allStored()
      account.service.proxy.add(BUSY)
      await change(user)
      await user.rename('file', 'folder/file')
      account.service.proxy.clear()
      await user.drain()
      await expectReplaced(user)
    })

    it('is in the trash when a program is writing it as it moves', async () => {
      const { user } = await allStored()
      const handle = await user.open('file', true)
      await user.drive.write(handle, Buffer.from('new'), 0)
      await user.rename('file', 'folder/file')
      await user.drive.flush(handle)
      await user.drive.release(handle)
      await user.drain()
      await expectReplaced(user)
    })

    it.each([
      ['in no trash when it moves while it is being stored', false],
      ['in the trash when a program is writing it as it moves while it is being stored', true],
    ])('is %s', async (_what, isWritten) => {
      const account = await AccountInProcess.start()
      const user = await account.open({ writeBack: true })
      await user.makeDirectory('folder')
      await user.write('folder/own', 'own')
      await user.drain()
      const gate = deferred()
      const sending = deferred()
      const before = () => {
        sending.resolve()
        return gate.promise
      }
      account.service.proxy.add({ match: UPLOAD, times: 1, fault: { before } })
      await user.write('file', BAG)
      await sending.promise
      const handle = isWritten ? await user.open('file', true) : undefined
      if (handle !== undefined) await user.drive.write(handle, Buffer.from('new'), 0)
      await user.rename('file', 'folder/file')
      if (handle !== undefined) await user.drive.release(handle)
      gate.resolve()
      await user.drain()
      const now = { 'folder/own': 'own', 'folder/file': isWritten ? 'new' : BAG }
      expect(await user.tree()).toEqual(now)
      expect(Object.keys(await account.service.contents())).toEqual(['folder'])
      expect(kept(user).filter((item) => item.startsWith('file '))).toHaveLength(isWritten ? 1 : 0)
    })

    it('is in no trash when it is still there', async () => {
      const { user } = await storedBeside({ one: 'one', two: 'two' })
      for (const name of ['one', 'two']) await user.rename(name, `folder/${name}`)
      await user.remove('folder/own')
      await user.rename('folder/one', 'folder/renamed')
      await user.drain()
      expect(kept(user)).toEqual([])
      expect(await user.tree()).toEqual({ 'folder/renamed': 'one', 'folder/two': 'two' })
    })
  },
)

describe('the trash', () => {
  it('is there after a kill, and at the next mount', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack: false })
    await user.write('file', 'content')
    await user.drive.unlink(ROOT, 'file')
    await user.drop()
    const next = await account.open()
    expect(kept(next)).toEqual(['file deleted 7'])
    await restore(next, 'file')
    await next.drain()
    expect(await account.service.contents()).toEqual({ file: 'content' })
  })

  it('is of this machine: another one never sees a deleted file', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack: false })
    const other = await account.open({}, 'elsewhere')
    for (const content of ['old', 'new']) await user.write('file', content)
    await user.drain()
    await other.listing.refreshNow()
    expect(await other.tree()).toEqual({ file: 'new' })
    await user.drive.unlink(ROOT, 'file')
    await other.listing.refreshNow()
    expect(await other.tree()).toEqual({})
    expect(kept(other)).toEqual([])
  })

  it('keeps nothing when it is off, and lets go of what there was', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack: false })
    await user.write('file', 'content')
    await user.drive.unlink(ROOT, 'file')
    await user.drop()
    const off = await account.open({ writeBack: false, settings: { keepDeletedMs: 0 } })
    expect(kept(off)).toEqual([])
    await off.write('other', 'content')
    await off.drive.unlink(ROOT, 'other')
    expect(kept(off)).toEqual([])
    await off.drop()
    expect(kept(await account.open())).toEqual([])
  })

  it('gives up the oldest when there is no room for all', async () => {
    const account = await AccountInProcess.start()
    const limits = { timeoutMs: 10_000, cacheBytes: 100_000 }
    const user = await account.open({ limits })
    for (const name of ['a', 'b', 'c']) {
      await user.write(name, name.repeat(40_000))
      await user.drain()
      await user.drive.unlink(ROOT, name)
      await user.drain()
    }
    await expect.poll(() => kept(user)).toEqual(['c deleted 40000', 'b deleted 40000'])
    expect(user.drive.commands.trash.report()).toMatchObject({ items: 2, givenUp: 1, notKept: 0 })
  })

  describe('that is full, and content that was never read here', () => {
    const LIMIT = 100_000

    /** Two items fill the trash, and a file of another machine is removed. */
    const fullAndRemoved = async (length: number, faults: readonly FaultRule[] = []) => {
      const account = await AccountInProcess.start()
      const { service } = account
      await service.upload('new.txt', Buffer.alloc(length))
      const user = await account.open({ limits: { timeoutMs: 10_000, cacheBytes: LIMIT } })
      for (const name of ['a', 'b']) {
        await user.write(name, name.repeat(40_000))
        await user.drain()
        await user.remove(name)
        await user.drain()
      }
      service.forgetEvents()
      for (const fault of faults) service.proxy.add(fault)
      await user.remove('new.txt')
      await user.drain()
      expect(await service.contents()).toEqual({})
      return { user, downloads: downloadsOf(account) }
    }

    it('gives up the oldest for it', async () => {
      const { user } = await fullAndRemoved(30_000)
      await expect.poll(() => kept(user)).toEqual(['new.txt deleted 30000', 'b deleted 40000'])
      expect(user.drive.commands.trash.report()).toMatchObject({ givenUp: 1, notKept: 0 })
    })

    it.each<[string, number, readonly FaultRule[]]>([
      ['alone is larger than the limit', LIMIT, []],
      ['cannot be fetched', 30_000, [{ match: DOWNLOAD, fault: { answer: { status: 500 } } }]],
    ])('gives up nothing for what %s', async (_what, length, faults) => {
      const { user, downloads } = await fullAndRemoved(length, faults)
      expect(downloads).toBe(0)
      // What is to go goes a moment later.
      await user.trash.tidy()
      expect(kept(user)).toEqual(['b deleted 40000', 'a deleted 40000'])
      expect(user.drive.commands.trash.report()).toMatchObject({ givenUp: 0, notKept: 1 })
    })
  })

  it.each([
    ['0 fetches none', { fetchDeletedBytes: 0 }, []],
    ['no larger content is fetched', { fetchDeletedBytes: 6 }, ['empty deleted 0']],
    ['content of the size is', { fetchDeletedBytes: 7 }, ['file deleted 7', 'empty deleted 0']],
  ])('has what was never read here up to a size: %s', async (_what, settings, expected) => {
    const account = await AccountInProcess.start()
    for (const [name, content] of [
      ['empty', ''],
      ['file', 'content'],
    ] as const) {
      await account.service.upload(`${name}.txt`, content)
    }
    const user = await account.open({ writeBack: false, settings })
    await user.drive.unlink(ROOT, 'empty.txt')
    await user.drive.unlink(ROOT, 'file.txt')
    expect(kept(user)).toEqual(expected.map((each) => each.replace(' ', '.txt ')))
    expect(await account.service.contents()).toEqual({})
  })

  it('keeps nobody from deleting what cannot be fetched, and tells of it', async () => {
    const account = await AccountInProcess.start()
    const { service } = account
    await service.upload('broken', 'content')
    await service.upload('large', Buffer.alloc(17 * 1024 * 1024))
    const user = await account.open({ writeBack: false })
    const answer = { status: 500, body: '{"detail":"broken"}' }
    service.proxy.add({ match: DOWNLOAD, fault: { answer } })
    await user.drive.unlink(ROOT, 'broken')
    service.proxy.clear()
    service.forgetEvents()
    await user.drive.unlink(ROOT, 'large')
    expect(await service.contents()).toEqual({})
    expect(kept(user)).toEqual([])
    expect(user.drive.commands.trash.report()).toMatchObject({ items: 0, notKept: 2 })
    expect(downloadsOf(account)).toBe(0)
  })

  it('tells of what was not kept once it is deleted, and not of what the service did not delete', async () => {
    const account = await AccountInProcess.start()
    const { service } = account
    await service.upload('broken', 'content')
    const user = await account.open({ writeBack: false })
    const fault = { answer: { status: 500, body: '{"detail":"broken"}' } }
    service.proxy.add({ match: DOWNLOAD, fault })
    const ended = service.proxy.add({ match: { method: 'DELETE' }, fault })
    await expect(user.drive.unlink(ROOT, 'broken')).rejects.toMatchObject({ code: 'server-error' })
    expect(user.drive.commands.trash.report()).toMatchObject({ notKept: 0 })
    ended()
    await user.drive.commands.sync()
    expect(await service.contents()).toEqual({})
    expect(user.drive.commands.trash.report()).toMatchObject({ items: 0, notKept: 1 })
  })

  it.each<[string, (user: DriveInProcess, account: AccountInProcess) => Promise<void>]>([
    ['was not here', (user) => user.remove('file.txt')],
    [
      'is in the trash already',
      async (user, { service }) => {
        await user.remove('file.txt')
        await user.drain()
        await user.cache.clear()
        await service.upload('file.txt', 'content')
        // A listing that lags is not believed for a moment.
        const namesNow = async () => {
          await user.listing.refreshNow()
          return user.names()
        }
        await expect.poll(namesNow).toContain('file.txt')
        await user.remove('file.txt')
      },
    ],
    [
      'goes on under another description',
      async (user, { service }) => {
        await user.write('own.txt', 'of this machine')
        await user.drain()
        service.proxy.add(BUSY)
        await user.drive.extended.set(
          await user.node('own.txt'),
          'user.bagfs.description',
          Buffer.from('new'),
        )
        await user.write('own.txt', 'of this machine')
        await user.cache.clear()
        service.proxy.clear()
      },
    ],
    [
      'is stored again meanwhile',
      async (user, { service }) => {
        const fetching = deferred()
        const gate = deferred()
        const before = () => {
          fetching.resolve()
          return gate.promise
        }
        service.proxy.add({ match: DOWNLOAD, times: 1, fault: { before } })
        await user.remove('file.txt')
        await fetching.promise
        await service.upload('file.txt', 'content')
        gate.resolve()
      },
    ],
  ])('has no files but those of its items once content that %s is dealt with', async (...given) => {
    const [, change] = given
    const account = await AccountInProcess.start()
    await account.service.upload('file.txt', 'content')
    const user = await account.open()
    await change(user, account)
    await user.drain()
    expect(downloadsOf(account)).toBeGreaterThan(0)
    const files = readdirSync(join(account.dir, 'state', 'trash', 'v1'))
    expect(files).toHaveLength(2 * user.drive.commands.trash.report().items)
  })

  it('has large content that was never read here where the drive is told so', async () => {
    const account = await AccountInProcess.start()
    await account.service.upload('large.bin', Buffer.alloc(17 * 1024 * 1024))
    const settings = { fetchDeletedBytes: 32 * 1024 * 1024 }
    const user = await account.open({ writeBack: false, settings })
    await user.drive.unlink(ROOT, 'large.bin')
    expect(kept(user)).toEqual([`large.bin deleted ${17 * 1024 * 1024}`])
  })
})
