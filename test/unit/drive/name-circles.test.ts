import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

/** Folders rest for longer than the moves of a test take. */
const RESTS = { folderRestMs: 2_000 }

describe.each([false, true])('what changes names in a circle (write back: %s)', (writeBack) => {
  it.each([
    ['an empty folder', []],
    ['a folder with a file', ['tmp/own']],
  ])('is stored where a file becomes a folder of its name by way of %s', async (_what, files) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack, settings: RESTS })
    await user.makeDirectory('tmp')
    for (const file of files) await user.write(file, 'own')
    await user.write('notes', 'one')
    await user.drain()
    await user.rename('notes', 'tmp/notes')
    await user.makeDirectory('notes')
    await user.rename('tmp/notes', 'notes/notes')
    await user.drain()
    const now = { ...Object.fromEntries(files.map((file) => [file, 'own'])), 'notes/notes': 'one' }
    const other = await account.open({}, 'elsewhere')
    expect(await other.tree()).toEqual(now)
    expect(await user.tree()).toMatchObject(now)
  })

  it('is stored where two files exchange places with folders of their names', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack, settings: RESTS })
    for (const name of ['a', 'b']) await user.write(name, name)
    await user.drain()
    await user.makeDirectory('tmp')
    for (const name of ['a', 'b']) await user.rename(name, `tmp/${name}`)
    for (const name of ['a', 'b']) await user.makeDirectory(name)
    await user.rename('tmp/a', 'b/a')
    await user.rename('tmp/b', 'a/b')
    await user.drain()
    const other = await account.open({}, 'elsewhere')
    expect(await other.tree()).toEqual({ 'a/b': 'b', 'b/a': 'a' })
  })

  it.each<[string, (user: DriveInProcess) => Promise<void>]>([
    [
      'gets the name of a file',
      async (user) => {
        await user.write('name', 'stored')
        await user.drain()
        await user.write('name', 'written anew')
        await user.remove('name')
      },
    ],
    [
      'takes the place of an emptied one',
      async (user) => {
        await user.makeDirectory('name')
        await user.write('name/file', 'stored')
        await user.drain()
        await user.remove('name/file')
      },
    ],
  ])('is deleted at the service, where an empty folder %s', async (_how, begin) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack, settings: RESTS })
    await begin(user)
    await user.makeDirectory('empty')
    await user.rename('empty', 'name')
    await user.drain()
    expect(await account.service.contents()).toEqual({})
    expect(await user.tree()).toEqual({ name: null })
    await user.write('name/later', 'later')
    await user.drain()
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual({ 'name/later': 'later' })
  })
})
