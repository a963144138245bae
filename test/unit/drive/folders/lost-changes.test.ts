import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { eventually } from '../../../support/eventually.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'

/** The directory of the changes of a folder. */
function changesOf({ outbox }: DriveInProcess, folder: string): string {
  const put = outbox.named(folder).find(({ kind, phase }) => kind === 'put' && phase === 'held')
  if (put === undefined) throw new Error(`${folder} has no changes.`)
  return outbox.directory(put.id)
}

/** What a disk or a backup lost of a drive that does not run. */
const DAMAGES: readonly { readonly what: string; readonly damage: (dir: string) => void }[] = [
  {
    what: 'content',
    damage: (dir) => {
      const last = readdirSync(join(dir, 'files')).sort().at(-1) ?? ''
      rmSync(join(dir, 'files', last))
    },
  },
  {
    what: 'the last line of the journal',
    damage: (dir) => {
      const path = join(dir, 'journal.jsonl')
      const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
      expect(lines.at(-1)).toContain('"tree"')
      writeFileSync(path, `${lines.slice(0, -1).join('\n')}\n`)
    },
  },
]

/** Two folders, and a file that moved from E to D since they were stored. */
async function moveAcross(account: AccountInProcess): Promise<DriveInProcess> {
  const machine = await account.open()
  const { drive } = machine
  for (const folder of ['D', 'E']) await drive.makeDirectory(ROOT, folder, 0o755)
  await machine.write('D/a', 'a')
  await machine.write('E/e', 'only copy')
  await machine.write('E/kept', 'kept')
  await drive.commands.sync()
  await machine.write('D/new', 'new')
  await drive.rename(await machine.node('E'), 'e', await machine.node('D'), 'e')
  return machine
}

describe('changes of a folder that the disk has lost', () => {
  it.each(DAMAGES)('leave what moved where it came from: $what', async ({ damage }) => {
    const account = await AccountInProcess.start()
    const before = await moveAcross(account)
    const dir = changesOf(before, 'D')
    await before.drop()
    damage(dir)
    const after = await account.open({ settings: { listingLagMs: 1 } })
    expect(await after.tree()).toEqual({ 'D/a': 'a', 'D/new': 'new', 'E/kept': 'kept' })
    await expect(after.drive.commands.sync()).rejects.toThrow(/E/)
    // Once the listing has D, nothing is known any more of the change that the content moved to.
    await eventually(async () => {
      await after.drive.commands.refresh()
      expect(after.outbox.named('D')).toEqual([])
    })
    await expect(after.drive.commands.sync()).rejects.toThrow(/E/)
    // Whatever comes to the folder later, it does not bring the content.
    await after.write('D/more', 'more')
    await expect(after.drive.commands.sync()).rejects.toThrow(/E/)
    await after.drop()
    const other = await account.open({}, 'other')
    const contents = Object.values(await other.tree())
    expect(contents).toContain('only copy')
    expect(contents).toContain('more')
  })

  it('are told with their paths', async () => {
    const account = await AccountInProcess.start()
    const before = await account.open()
    await before.drive.makeDirectory(ROOT, 'F', 0o755)
    await before.write('F/doc', 'content')
    await before.drive.makeDirectory(await before.node('F'), 'sub', 0o755)
    await before.drive.rename(await before.node('F'), 'doc', await before.node('F/sub'), 'moved')
    const dir = changesOf(before, 'F')
    await before.drop()
    for (const name of readdirSync(join(dir, 'files'))) rmSync(join(dir, 'files', name))
    const after = await account.open()
    expect(await after.tree()).toEqual({ 'F/sub': null })
    const [aside = ''] = after.outbox.damaged()
    expect(JSON.parse(readFileSync(join(aside, 'lost.json'), 'utf8'))).toEqual(['sub/moved'])
    await after.drop()
    const again = await account.open()
    expect(await again.tree()).toEqual({ 'F/sub': null })
    expect(again.outbox.damaged()).toEqual([aside])
  })

  it('are none where content was removed, replaced or renamed over', async () => {
    const account = await AccountInProcess.start()
    const before = await account.open()
    const { drive } = before
    await drive.makeDirectory(ROOT, 'F', 0o755)
    const folder = await before.node('F')
    await drive.makeDirectory(folder, 'sub', 0o755)
    for (const name of ['a', 'b', 'sub/c']) await before.write(`F/${name}`, name)
    await before.write('F/a', 'again')
    await drive.rename(folder, 'b', folder, 'a')
    await drive.unlink(await before.node('F/sub'), 'c')
    await drive.removeDirectory(folder, 'sub')
    await before.outbox.sync.complete()
    await before.write('F/last', 'last')
    await before.outbox.sync.complete()
    await before.drop()
    const after = await account.open()
    expect(after.outbox.damaged()).toEqual([])
    expect(await after.tree()).toEqual({ 'F/a': 'b', 'F/last': 'last' })
  })
})
