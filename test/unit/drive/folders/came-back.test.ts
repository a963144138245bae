import { expect, it } from 'vitest'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'

/** Ways of a file out of the folder G and back: the zip of G becomes what it was, with the same id. */
const WAYS: Readonly<Record<string, (user: DriveInProcess) => Promise<void>>> = {
  'to the root': async (user) => {
    await user.rename('G/b', 'b')
    await user.rename('b', 'G/b')
  },
  'to the root, with a sync in between': async (user) => {
    await user.rename('G/b', 'b')
    await user.drive.commands.sync()
    await user.rename('b', 'G/b')
  },
  'to another folder': async (user) => {
    await user.makeDirectory('F')
    await user.rename('G/b', 'F/b')
    await user.rename('F/b', 'G/b')
  },
}

const CASES = Object.entries(WAYS).flatMap(([way, go]) =>
  ['alone', 'the last'].flatMap((place) =>
    [false, true].flatMap((writeBack) =>
      [false, true].map((isKilled) => ({ way, go, place, writeBack, isKilled })),
    ),
  ),
)

it.each(CASES)(
  'what was $place in a folder and is moved $way and back stays in it (write-back: $writeBack, killed: $isKilled)',
  async ({ go, place, writeBack, isKilled }) => {
    const account = await AccountInProcess.start()
    let user = await account.open({ writeBack })
    await user.makeDirectory('G')
    const before = place === 'alone' ? [] : ['a']
    for (const name of before) await user.write(`G/${name}`, name)
    await user.write('G/b', 'precious')
    await user.drive.commands.sync()
    await go(user)
    if (isKilled) {
      await user.drop()
      user = await account.open({ writeBack })
    }
    await user.drive.commands.sync()
    expect(await user.names('G')).toEqual([...before, 'b'])
    await user.write('G/new', 'new')
    await user.drive.commands.sync()
    await user.drop()
    const next = await account.open({ writeBack }, 'next')
    expect(await next.tree()).toMatchObject({ 'G/b': 'precious', 'G/new': 'new' })
  },
)
