import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { listItems } from '../../../../src/outbox/items.ts'

/** Nothing is sent while a test looks. */
const RESTS = { settings: { folderRestMs: 60_000 } }

/** Discards what waits under these names, as `bagfs outbox discard` does. */
async function discard(user: DriveInProcess, ...names: readonly string[]): Promise<void> {
  const chosen = listItems(user.outbox.intents()).filter(({ name }) => names.includes(name))
  expect(chosen.length).toBeGreaterThan(0)
  await user.drive.commands.discard(chosen.map(({ id }) => id))
}

/** A stored folder of two files. */
async function storedFolder() {
  const account = await AccountInProcess.start()
  const user = await account.open(RESTS)
  await user.makeDirectory('folder')
  await user.write('folder/one', 'first')
  await user.write('folder/two', 'second')
  await user.drain()
  return { account, user }
}

describe('changes of a folder that are discarded', () => {
  it.each([
    ['a removal', (user: DriveInProcess) => user.remove('folder/one')],
    ['a new name', (user: DriveInProcess) => user.rename('folder/one', 'folder/other')],
    ['new content', (user: DriveInProcess) => user.write('folder/one', 'changed')],
    ['a new file', (user: DriveInProcess) => user.write('folder/new', 'new')],
  ])('show no more, and are in nothing that is stored later: %s', async (_what, change) => {
    const { account, user } = await storedFolder()
    await change(user)
    await discard(user, 'folder')
    const stored = { 'folder/one': 'first', 'folder/two': 'second' }
    expect(await user.tree()).toEqual(stored)
    await user.write('folder/later', 'later')
    await user.drain()
    const after = { ...stored, 'folder/later': 'later' }
    expect(await user.tree()).toEqual(after)
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(after)
  })

  it('leave a file that a program has open to be read to its end', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open(RESTS)
    await user.makeDirectory('folder')
    await user.write('folder/one', 'first')
    await user.drain()
    await user.write('folder/one', 'changed')
    const handle = await user.open('folder/one')
    await discard(user, 'folder')
    expect(await user.readAll(handle)).toBe('changed')
    expect(await user.read('folder/one')).toBe('first')
    await user.drive.release(handle)
  })

  it('are not discarded while a program writes in the folder', async () => {
    const { account, user } = await storedFolder()
    await user.remove('folder/two')
    const handle = await user.drive.open(await user.node('folder/one'), {
      writable: true,
      truncate: false,
    })
    await expect(discard(user, 'folder')).rejects.toMatchObject({ code: 'busy' })
    await user.drive.write(handle, Buffer.from('F'), 0)
    await user.drive.fsync(handle)
    await expect(discard(user, 'folder')).rejects.toMatchObject({ code: 'busy' })
    await user.drive.release(handle)
    await user.drain()
    const other = await account.open({}, 'elsewhere')
    expect(await other.tree()).toEqual({ 'folder/one': 'First' })
  })

  it.each([
    ['new', ''],
    ['fsynced', 'F'],
  ])(
    'fail a program that goes on to write into what they took along: %s',
    async (_what, before) => {
      const account = await AccountInProcess.start()
      const user = await account.open(RESTS)
      await user.makeDirectory('folder')
      await user.write('folder/one', 'first')
      await user.drain()
      await user.write('folder/two', 'second')
      const handle = await user.drive.open(await user.node('folder/one'), {
        writable: true,
        truncate: false,
      })
      if (before !== '') {
        await user.drive.write(handle, Buffer.from(before), 0)
        await user.drive.fsync(handle)
      }
      // As when the program opened it in the moment in which they were discarded.
      const ids = listItems(user.outbox.intents()).map(({ id }) => id)
      for (const id of ids) await user.outbox.remove(id)
      user.drive.commands.forgetChanges(ids)
      const stale = { code: 'stale' }
      const writing = async () => user.drive.write(handle, Buffer.from('lost'), 0)
      await expect(writing()).rejects.toMatchObject(stale)
      await expect(user.drive.truncateOpen(handle, 1)).rejects.toMatchObject(stale)
      await user.drive.release(handle)
      expect(await user.tree()).toEqual({ 'folder/one': 'first' })
    },
  )

  it('are refused where what moved there would be at no place, and are gone where both are discarded', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open(RESTS)
    for (const name of ['from', 'to']) {
      await user.makeDirectory(name)
      await user.write(`${name}/own`, 'own')
    }
    await user.write('from/moved', 'moved')
    await user.drain()
    const stored = { 'from/own': 'own', 'from/moved': 'moved', 'to/own': 'own' }
    await user.rename('from/moved', 'to/moved')
    await expect(discard(user, 'to')).rejects.toMatchObject({
      code: 'busy',
      message: 'What moved from from to to would be at no place.',
    })
    await discard(user, 'from', 'to')
    expect(await user.tree()).toEqual(stored)
    await user.drain()
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(stored)
  })

  it('are a folder that was made here', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open(RESTS)
    await user.makeDirectory('folder')
    await user.write('folder/one', 'first')
    await discard(user, 'folder')
    expect(await user.tree()).toEqual({})
    await user.drive.makeDirectory(ROOT, 'folder', 0o755)
    await user.write('folder/two', 'second')
    await user.drain()
    expect(await user.tree()).toEqual({ 'folder/two': 'second' })
  })
})
