import { expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

interface Names {
  readonly a: string
  readonly b: string
  readonly same: string
}

/** Changes after which the names `a` and `b` have the content `same` again: the service gives its bag the same id. */
const CHANGES: Readonly<Record<string, (drive: DriveInProcess, names: Names) => Promise<void>>> = {
  'saved with a backup': async (drive, { a, same }) => {
    await drive.rename(a, `${a}~`)
    await drive.write(a, same)
    await drive.remove(`${a}~`)
  },
  'saved with a backup by rename': async (drive, { a, same }) => {
    await drive.rename(a, `${a}~`)
    await drive.write(`${a}.new`, same)
    await drive.rename(`${a}.new`, a)
    await drive.remove(`${a}~`)
  },
  'swapped with another of that content': async (drive, { a, b }) => {
    await drive.rename(b, `${b}.z`)
    await drive.rename(a, b)
    await drive.rename(`${b}.z`, a)
  },
  'removed and written again': async (drive, { a, same }) => {
    await drive.remove(a)
    await drive.write(a, same)
  },
  'moved away and back': async (drive, { a }) => {
    await drive.rename(a, `${a}.c`)
    await drive.rename(`${a}.c`, a)
  },
  'moved over the other and back': async (drive, { a, b }) => {
    await drive.rename(b, `${b}~`)
    await drive.rename(a, b)
    await drive.rename(b, a)
    await drive.rename(`${b}~`, b)
  },
  'copied over by the other': async (drive, { a, b }) => {
    await drive.rename(a, `${a}.c`)
    await drive.rename(b, a)
    await drive.rename(`${a}.c`, b)
  },
}

/** Files by turns, so that of each way some changes are new when the drive is dropped. */
const FILES = Array.from({ length: 8 }, (_, index) =>
  Object.entries(CHANGES).map(([way, change]) => ({
    a: `${way}, a ${index}`,
    b: `${way}, b ${index}`,
    same: `same of ${way}`,
    change,
  })),
).flat()

it.each([
  { mode: 'through', end: 'sync' },
  { mode: 'through', end: 'drop' },
  { mode: 'back', end: 'sync' },
  { mode: 'back', end: 'drop' },
])(
  'a file of unchanged content is there whatever came between (mode $mode, then a $end)',
  async ({ mode, end }) => {
    const account = await AccountInProcess.start()
    const options = { writeBack: mode === 'back' }
    let drive = await account.open(options)
    const wanted: Record<string, string> = {}
    for (const { a, b, same } of FILES) {
      for (const name of [a, b]) {
        await drive.write(name, same)
        wanted[name] = same
      }
    }
    await drive.drive.commands.sync()
    expect(await account.service.contents()).toEqual(wanted)
    for (const { change, ...names } of FILES) await change(drive, names)
    if (end === 'drop') {
      await drive.drop()
      drive = await account.open(options)
    }
    await drive.drive.commands.sync()
    expect(await drive.tree()).toEqual(wanted)
    await drive.drain()
    expect(await account.service.contents()).toEqual(wanted)
  },
)
