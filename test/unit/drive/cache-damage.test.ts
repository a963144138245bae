import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { damageCache } from '../../support/damage-cache.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const CONTENT = 'abcdefghij'.repeat(90)
const FOLDERS = { 'folder/inside': CONTENT, 'other/own': 'own' }

/** An account with a file and two folders, and a drive of it whose cache was damaged while it was not mounted. */
async function damaged(place: number) {
  const account = await AccountInProcess.start()
  const before = await account.open()
  for (const folder of ['folder', 'other']) await before.makeDirectory(folder)
  for (const [path, content] of Object.entries({ ...FOLDERS, file: CONTENT })) {
    await before.write(path, content)
  }
  await before.drain()
  await before.drop()
  expect(damageCache(account, place)).toBeGreaterThanOrEqual(3)
  return { account, user: await account.open() }
}

describe.each([0.15, 0.3, 0.5])('content damaged by the disk, at %d of its length', (place) => {
  it.each<[string, (user: DriveInProcess) => Promise<void>, object]>([
    [
      'a file gets another name',
      (user) => user.rename('file', 'renamed'),
      { ...FOLDERS, renamed: CONTENT },
    ],
    [
      'a file is written on',
      (user) => user.append('file', 'more'),
      { ...FOLDERS, file: `${CONTENT}more` },
    ],
    [
      'a file moves into a folder',
      (user) => user.rename('file', 'other/file'),
      { ...FOLDERS, 'other/file': CONTENT },
    ],
    [
      'a folder gets another name',
      (user) => user.rename('folder', 'renamed'),
      { file: CONTENT, 'renamed/inside': CONTENT, 'other/own': 'own' },
    ],
    [
      'a folder gets another file',
      (user) => user.write('folder/new', 'new'),
      { ...FOLDERS, file: CONTENT, 'folder/new': 'new' },
    ],
  ])('is not stored in the place of what is good: %s', async (_how, change, now) => {
    const { account, user } = await damaged(place)
    await change(user)
    // What a folder was read from says that it was not as it is stored, and the next mount reads it anew.
    await user.drain().catch(() => undefined)
    await user.drop()
    const next = await account.open()
    await next.drain()
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(now)
  })

  it.each(['file', 'folder'])('is not what the trash keeps of a %s', async (name) => {
    const { user } = await damaged(place)
    await user.remove(name)
    await user.drain()
    const items = user.drive.commands.trash.items().filter((item) => item.name === name)
    const [largest] = items.toSorted((one, other) => other.length - one.length)
    if (largest === undefined) throw new Error('It is not in the trash.')
    await user.drive.commands.trash.restore(largest.bagId, { name: 'restored' })
    await user.drain()
    expect(await user.read(name === 'file' ? 'restored' : 'restored/inside')).toBe(CONTENT)
  })
})
