import { beforeEach, describe, expect, it } from 'vitest'
import { isDriveError } from '../../../src/domain/errors.ts'
import type { HandleId } from '../../../src/domain/ids.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { REFUSALS } from '../../support/refusals.ts'

/** How new content takes the place of a stored file. */
const WAYS: Readonly<Record<string, (drive: DriveInProcess, target: string) => Promise<void>>> = {
  write: (drive, target) => drive.write(target, 'new'),
  append: (drive, target) => drive.append(target, 'more'),
  rename: (drive, target) => drive.rename(target, `${target}-elsewhere`),
  'rename-over': (drive, target) => drive.rename(`doc-${target}`, target),
  'rename-new-over': async (drive, target) => {
    await drive.write(`${target}-new`, 'new')
    await drive.rename(`${target}-new`, target)
  },
  save: async (drive, target) => {
    await drive.write(`${target}.tmp`, 'new')
    await drive.rename(`${target}.tmp`, target)
  },
}

/** For each way a file that is closed and one that a program holds open. */
const TARGETS = Object.entries(WAYS).flatMap(([way, replace]) =>
  ['closed', 'open'].map((state) => ({
    name: `${way}-${state}`,
    isOpen: state === 'open',
    replace,
  })),
)

/** Out of a folder that is empty then, from folder to folder and back, into a folder, and a folder as a whole. */
const MOVES = [
  ['a/a', 'a-out'],
  ['into/into', 'b/into'],
  ['b/b', 'into/b'],
  ['root', 'into/root'],
  ['whole', 'into/whole'],
  ['full', 'b/full'],
  ['dir', 'into/dir'],
] as const

const CASES = ['through', 'back'].flatMap((mode) =>
  Object.entries(REFUSALS).map(([refusal, answer]) => ({ mode, refusal, answer })),
)

const settings = { folderRestMs: 100 }

let account: AccountInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
})

async function stored(): Promise<ReadonlyMap<string, string>> {
  const records = await account.service.list()
  return new Map(records.map(({ filename, bag_id }) => [filename, bag_id]))
}

/** Fails with an error of the drive, or does not. */
async function tried(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!isDriveError(error)) throw error
  }
}

/** Does this in mode back, and opens the account again in a mode when all of it is stored. */
async function given(
  mode: string,
  make: (drive: DriveInProcess) => Promise<void>,
): Promise<DriveInProcess> {
  const first = await account.open({ settings })
  await make(first)
  await first.drain()
  await first.drop()
  return account.open({ settings, writeBack: mode === 'back' })
}

async function makeTargets(drive: DriveInProcess): Promise<void> {
  for (const { name } of TARGETS) {
    await drive.write(name, name)
    await drive.write(`doc-${name}`, `doc-${name}`)
  }
  await drive.write('last', 'last')
  await drive.makeDirectory('folder')
  await drive.write('folder/file', 'file')
}

async function holdOpen(drive: DriveInProcess): Promise<readonly HandleId[]> {
  const held: HandleId[] = []
  for (const { name, isOpen } of TARGETS) if (isOpen) held.push(await drive.open(name))
  return held
}

/** Whatever was to be deleted before is deleted then. */
async function untilDeletesAreSent(drive: DriveInProcess): Promise<void> {
  await drive.remove('last')
  await expect.poll(async () => (await stored()).has('last')).toBe(false)
}

describe('bags that new content takes the place of', () => {
  it.each(CASES)(
    'stay while the service answers uploads with $refusal (mode $mode)',
    async ({ answer, mode }) => {
      const drive = await given(mode, makeTargets)
      const held = await holdOpen(drive)
      const before = new Map(await stored())
      before.delete('last')
      const deletes = account.service.deletes()
      account.service.proxy.add({ match: { method: 'POST' }, fault: { answer } })
      for (const { name, replace } of TARGETS) await tried(replace(drive, name))
      await tried(drive.write('folder/file', 'new'))
      await tried(drive.write('folder/more', 'more'))
      await tried(drive.drive.commands.sync())
      for (const handle of held) await drive.drive.release(handle)
      await untilDeletesAreSent(drive)
      expect(new Map(await stored())).toEqual(before)
      await expect.poll(() => account.service.deletes()).toBe(deletes + 1)
    },
  )

  it.each(CASES)(
    'stay while what moved elsewhere is not stored there, with $refusal (mode $mode)',
    async ({ answer, mode }) => {
      const drive = await given(mode, async (first) => {
        for (const name of ['a', 'b', 'whole', 'into', 'full']) {
          await first.makeDirectory(name)
          await first.write(`${name}/${name}`, name)
        }
        await first.write('root', 'r')
      })
      await drive.makeDirectory('empty')
      await drive.makeDirectory('dir')
      await drive.write('dir/dir', 'dir')
      await drive.drive.commands.sync()
      const before = await stored()
      account.service.forgetEvents()
      account.service.proxy.add({ match: { method: 'POST' }, fault: { answer } })
      for (const [from, to] of MOVES) await tried(drive.rename(from, to))
      await tried(drive.drive.commands.sync())
      expect(await stored()).toEqual(before)
      expect(account.service.deletes()).toBe(0)
      account.service.proxy.clear()
      for (const [from, to] of MOVES) {
        const isThere = await drive.node(from).then(
          () => true,
          () => false,
        )
        if (isThere) await drive.rename(from, to)
        else await drive.node(to)
      }
      for (const { id, failure } of drive.outbox.intents()) {
        if (failure !== undefined) await drive.drive.uploader.retry(id)
      }
      await expect.poll(() => drive.drive.commands.sync().then(() => true, String)).toBe(true)
      expect([...(await stored()).keys()].sort()).toEqual(['a-out', 'b', 'into'])
    },
  )

  it.each(
    [
      ['H/b', 'K/b'],
      ['H/b', 'b'],
      ['b', 'K/b'],
      ['b', 'c'],
    ].flatMap(([first = '', last = '']) =>
      ['stays', 'is removed'].flatMap((then) =>
        [false, true].map((isKilled) => ({ first, last, then, isKilled })),
      ),
    ),
  )(
    'stay while what went by $first to $last is not stored there (H $then, killed: $isKilled)',
    async ({ first, last, then, isKilled }) => {
      let drive = await given('back', async (before) => {
        await before.makeDirectory('G')
        await before.write('G/b', 'precious')
      })
      const before = await stored()
      account.service.forgetEvents()
      const answer = { status: 503, body: '{"detail":"later"}' }
      account.service.proxy.add({ match: { method: 'POST' }, fault: { answer } })
      await drive.makeDirectory('H')
      await drive.makeDirectory('K')
      await drive.rename('G/b', first)
      await tried(drive.drive.commands.sync())
      await drive.rename(first, last)
      if (then === 'is removed') await drive.remove('H')
      await tried(drive.drive.commands.sync())
      if (isKilled) {
        await drive.drop()
        drive = await account.open({ settings })
      }
      await tried(drive.drive.commands.sync())
      expect(await stored()).toEqual(before)
      expect(account.service.deletes()).toBe(0)
      account.service.proxy.clear()
      for (const { id, failure } of drive.outbox.intents()) {
        if (failure !== undefined) await drive.drive.uploader.retry(id)
      }
      await expect.poll(() => drive.drive.commands.sync().then(() => true, String)).toBe(true)
      expect([...(await stored()).keys()]).toEqual([last.replace(/\/b$/, '')])
      expect(await drive.read(last)).toBe('precious')
    },
  )
})
