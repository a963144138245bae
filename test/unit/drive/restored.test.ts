import { existsSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { damageCache } from '../../support/damage-cache.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { BUSY } from '../../support/uploads.ts'
import { kept, restore } from '../../support/trash.ts'
import { listItems } from '../../../src/outbox/items.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'

/** A folder of two files that was deleted and comes back, while the service takes no upload. */
async function restoredUnsent(writeBack: boolean, settings: { folderRestMs?: number } = {}) {
  const account = await AccountInProcess.start()
  const user = await account.open({ writeBack, settings })
  await user.makeDirectory('folder')
  await user.write('folder/one', 'first')
  await user.write('folder/two', 'second')
  await user.drain()
  await user.remove('folder')
  await user.drain()
  const deleted = user.drive.commands.trash.items().find(({ length }) => length > 200)
  if (deleted === undefined) throw new Error('No version of the folder has both.')
  account.service.proxy.add(BUSY)
  const restoring = user.drive.commands.trash.restore(deleted.bagId)
  if (writeBack) await restoring
  else await expect(restoring).rejects.toThrow('waits in the outbox')
  return { account, user, deleted }
}

/** While the folder is just being sent once more, that it is gone comes with an error of the upload. */
async function removed(user: DriveInProcess): Promise<void> {
  const leftAfterRemoval = async () => {
    await user.remove('folder').catch(() => undefined)
    return user.names()
  }
  await expect.poll(leftAfterRemoval).toEqual([])
}

describe.each([
  { writeBack: false, how: 'in the same drive' },
  { writeBack: true, how: 'in the same drive' },
  { writeBack: true, how: 'killed' },
  { writeBack: true, how: 'killed, with the cache gone' },
])('a folder that came back and is not stored yet (write back: $writeBack, $how)', (given) => {
  const begin = async () => {
    const { account, user, deleted } = await restoredUnsent(given.writeBack)
    if (given.how === 'in the same drive') return { account, user, deleted }
    await user.drop()
    if (given.how !== 'killed') rmSync(join(account.dir, 'state', 'cache'), { recursive: true })
    return { account, user: await account.open({ writeBack: true }), deleted }
  }
  const BOTH = { 'folder/one': 'first', 'folder/two': 'second' }

  it('shows what is in it, and is stored as it was', async () => {
    const { account, user } = await begin()
    expect(await user.tree()).toEqual(BOTH)
    await expect(user.drive.removeDirectory(ROOT, 'folder')).rejects.toMatchObject({
      code: 'not-empty',
    })
    account.service.proxy.clear()
    await user.drain()
    expect(await user.tree()).toEqual(BOTH)
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(BOTH)
  })

  it('takes changes, and loses none of them', async () => {
    const { account, user } = await begin()
    await user.write('folder/new', 'written')
    await user.write('folder/one', 'changed')
    await user.rename('folder', 'renamed')
    const after = { 'renamed/new': 'written', 'renamed/one': 'changed', 'renamed/two': 'second' }
    expect(await user.tree()).toEqual(after)
    account.service.proxy.clear()
    await user.drain()
    expect(await user.tree()).toEqual(after)
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(after)
  })

  it('is in the trash again when it is removed, and no more once it is stored', async () => {
    const { account, user, deleted } = await begin()
    const isKept = () =>
      user.drive.commands.trash.items().some(({ bagId }) => bagId === deleted.bagId)
    expect(isKept()).toBe(false)
    await expect(
      user.drive.commands.trash.restore(deleted.bagId, { name: 'twice' }),
    ).rejects.toThrow('is on its way back')
    await removed(user)
    expect(isKept()).toBe(true)
    account.service.proxy.clear()
    await user.drive.commands.trash.restore(deleted.bagId)
    await user.drain()
    expect(await user.tree()).toEqual(BOTH)
    expect(isKept()).toBe(false)
  })
})

describe('a folder that came back, and whose zip was damaged before it was stored', () => {
  const basesIn = ({ dir }: AccountInProcess): readonly string[] => {
    const outbox = join(dir, 'state', 'outbox', 'v2')
    const paths = readdirSync(outbox).map((id) => join(outbox, id, 'base'))
    return paths.filter((path) => existsSync(path))
  }

  /** A restored folder that was changed and not stored yet; what is of it on this machine is damaged. */
  const damaged = async (damage: (path: string) => void, cache: string) => {
    const rests = { folderRestMs: 60_000 }
    const { account, user: before, deleted } = await restoredUnsent(true, rests)
    // While the zip as it came back is just being tried once more, it stays: it is whole.
    const contentAfterChange = async () => {
      await before.write('folder/new', 'written')
      return before.outbox.intents().map((each) => each.kind === 'put' && each.content.from)
    }
    await expect.poll(contentAfterChange).toContain('folder')
    await before.drop()
    const bases = basesIn(account)
    expect(bases).toHaveLength(1)
    for (const base of bases) damage(base)
    if (cache === 'gone') rmSync(join(account.dir, 'state', 'cache'), { recursive: true })
    if (cache === 'damaged') damageCache(account, 0.3)
    account.service.proxy.clear()
    return { account, deleted, user: await account.open({ writeBack: true }) }
  }

  const zeros = (path: string): void => {
    writeFileSync(path, Buffer.alloc(statSync(path).size))
  }
  const cut = (path: string): void => {
    truncateSync(path, statSync(path).size - 1)
  }

  it('is stored by what the outbox has, where only the cache was damaged', async () => {
    const { account, user } = await damaged(() => undefined, 'damaged')
    await user.drain()
    const now = { 'folder/one': 'first', 'folder/two': 'second', 'folder/new': 'written' }
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(now)
  })

  it.each<[string, (path: string) => void, string]>([
    ['other bytes', zeros, 'gone'],
    ['cut off', cut, 'gone'],
    ['gone', rmSync, 'gone'],
    ['other bytes, and in the cache', zeros, 'damaged'],
  ])(
    'is never stored, shows no empty folder, and can be restored anew: %s',
    async (_how, damage, cache) => {
      const { account, user, deleted } = await damaged(damage, cache)
      const words = { code: 'corrupt', message: expect.stringContaining('is damaged') as string }
      await expect(user.read('folder/one')).rejects.toMatchObject(words)
      await expect(user.write('folder/more', 'more')).rejects.toMatchObject(words)
      await expect(user.drive.removeDirectory(ROOT, 'folder')).rejects.toMatchObject(words)
      await user.drive.uploader.drain(AbortSignal.timeout(60_000))
      expect(await account.service.contents()).toEqual({})
      const [item] = listItems(user.outbox.intents())
      expect(item).toMatchObject({ name: 'folder', failure: { code: 'corrupt' } })
      // What is just being tried once more is not discarded.
      const discard = () => user.drive.commands.discard(item === undefined ? [] : [item.id])
      await expect.poll(() => discard().catch(String)).toBeUndefined()
      expect(await user.tree()).toEqual({})
      await user.drive.commands.trash.restore(deleted.bagId)
      await user.drain()
      expect(await user.tree()).toEqual({ 'folder/one': 'first', 'folder/two': 'second' })
    },
  )
})

describe('what is on its way back', () => {
  it.each<[string, (user: DriveInProcess) => Promise<void>]>([
    ['removed', removed],
    [
      'emptied',
      async (user) => {
        for (const name of ['one', 'two']) await user.remove(`folder/${name}`)
      },
    ],
    [
      'discarded',
      async (user) => {
        const ids = listItems(user.outbox.intents()).map(({ id }) => id)
        await expect.poll(() => user.drive.commands.discard(ids).catch(String)).toBeUndefined()
      },
    ],
  ])('is in the trash again once it is %s, also when its time was over', async (_how, change) => {
    const { account, user: before, deleted } = await restoredUnsent(true)
    await before.drop()
    const user = await account.open({ writeBack: true, settings: { keepDeletedMs: 1 } })
    await change(user)
    account.service.proxy.clear()
    await user.drain()
    const item = user.drive.commands.trash.items().find(({ bagId }) => bagId === deleted.bagId)
    expect(item?.deletedAtMs).toBeGreaterThan(deleted.deletedAtMs)
    await user.drive.commands.trash.restore(deleted.bagId, { name: 'again' })
    await user.drain()
    expect(await user.tree()).toMatchObject({ 'again/one': 'first', 'again/two': 'second' })
  })
})

describe.each([false, true])('what came back and is stored (write back: %s)', (writeBack) => {
  it.each<[string, (user: DriveInProcess) => Promise<void>]>([
    ['removed', (user) => user.remove('file')],
    ['replaced', (user) => user.write('file', 'new')],
    [
      'moved into a folder and removed there',
      async (user) => {
        await user.makeDirectory('folder')
        await user.write('folder/own', 'own')
        await user.rename('file', 'folder/file')
        await user.remove('folder/file')
      },
    ],
  ])('is in the trash once more when it is %s, also after a kill', async (_how, change) => {
    const account = await AccountInProcess.start()
    const killed = await account.open({ writeBack })
    await killed.write('file', 'precious')
    await killed.drain()
    await killed.remove('file')
    await killed.drain()
    await restore(killed, 'file')
    await killed.drain()
    expect(kept(killed)).toEqual([])
    await change(killed)
    await killed.drain()
    const isPrecious = (item: string) => item.endsWith(' 8')
    expect(kept(killed).filter(isPrecious)).toHaveLength(1)
    await killed.drop()
    const user = await account.open({ writeBack })
    expect(kept(user).filter(isPrecious)).toHaveLength(1)
  })
})

describe('what comes back with --replace', () => {
  /** An item called `gone`, and a stored `file`. */
  const stored = async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack: true })
    for (const name of ['gone', 'file']) await user.write(name, `of ${name}`)
    await user.drain()
    await user.remove('gone')
    await user.drain()
    const [item] = user.drive.commands.trash.items()
    if (item === undefined) throw new Error('The trash is empty.')
    const replace = (name: string) =>
      user.drive.commands.trash.restore(item.bagId, { name, replace: true })
    return { account, user, replace }
  }

  it.each([
    ['is new and waits', 'new', false],
    ['waits in the place of what is stored', 'file', false],
    ['a program is writing', 'file', true],
  ])('takes no place of content that %s', async (_what, name, isOpen) => {
    const { account, user, replace } = await stored()
    account.service.proxy.add(BUSY)
    if (!isOpen) await user.write(name, 'written')
    const handle = isOpen ? await user.open(name, true) : undefined
    if (handle !== undefined) await user.drive.write(handle, Buffer.from('WRITTEN'), 0)
    await expect(replace(name)).rejects.toMatchObject({
      code: 'busy',
      message: `${name} has content that is not stored yet.`,
    })
    if (handle !== undefined) await user.drive.release(handle)
    const content = isOpen ? 'WRITTEN' : 'written'
    expect(await user.read(name)).toBe(content)
    account.service.proxy.clear()
    await user.drain()
    await replace(name)
    await user.drain()
    expect(await account.service.contents()).toMatchObject({ [name]: 'of gone' })
    expect(kept(user)).toContain(`${name} replaced ${content.length}`)
  })

  it('takes the place of a stored file whose new name waits, which is in the trash then', async () => {
    const { account, user, replace } = await stored()
    account.service.proxy.add(BUSY)
    await user.rename('file', 'renamed')
    await replace('renamed')
    account.service.proxy.clear()
    await user.drain()
    expect(await account.service.contents()).toEqual({ renamed: 'of gone' })
    // A try to store it that was under way may have given it the new name before.
    expect(kept(user).filter((item) => item.endsWith(' 7'))).not.toEqual([])
  })
})
