import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { deferred } from '../../../../src/domain/deferred.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'

const UPLOAD = { method: 'POST', path: /upload$/ }

/** The directory of the changes of the only folder that has some. */
function changesOf({ outbox }: DriveInProcess): string {
  const [put] = outbox.intents().filter(({ kind, phase }) => kind === 'put' && phase === 'held')
  if (put === undefined) throw new Error('No folder has changes.')
  return outbox.directory(put.id)
}

/** What a power cut makes of content that was not on the platter. */
function makeZeros(path: string): void {
  writeFileSync(path, Buffer.alloc(statSync(path).size))
}

describe('a power cut that leaves zeros of a file that was closed in a folder a moment ago', () => {
  it('leaves what was stored, tells of it, and none of it is sent', async () => {
    const account = await AccountInProcess.start()
    const before = await account.open()
    await before.drive.makeDirectory(ROOT, 'F', 0o755)
    await before.write('F/doc', 'old')
    await before.drive.commands.sync()
    await before.write('F/doc', 'new')
    await before.write('F/other', 'other')
    await before.drive.rename(await before.node('F'), 'other', await before.node('F'), 'moved')
    const dir = changesOf(before)
    await before.drop()
    for (const name of readdirSync(join(dir, 'files'))) makeZeros(join(dir, 'files', name))
    const after = await account.open()
    expect(await after.tree()).toEqual({ 'F/doc': 'old' })
    const [aside = ''] = after.outbox.damaged()
    expect(readdirSync(join(aside, 'files'))).toHaveLength(2)
    await after.drive.commands.sync()
    const other = await account.open({}, 'other')
    expect(await other.tree()).toEqual({ 'F/doc': 'old' })
  })

  it('is no harm where it is the zip, though the folder is looked into before that is sent', async () => {
    const account = await AccountInProcess.start()
    const before = await account.open()
    await before.drive.makeDirectory(ROOT, 'F', 0o755)
    await before.write('F/doc', 'content')
    account.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 503 } } })
    await expect(before.drive.commands.sync()).rejects.toThrow()
    const [put] = before.outbox.intents()
    if (put === undefined) throw new Error('The folder has no changes.')
    await before.drop()
    makeZeros(before.outbox.contentPath(put.id))
    account.service.proxy.clear()
    const after = await account.open()
    expect(await after.tree()).toEqual({ 'F/doc': 'content' })
    await after.drive.commands.sync()
    const other = await account.open({}, 'other')
    expect(await other.tree()).toEqual({ 'F/doc': 'content' })
  })

  it('is not what one finds that was written on since', async () => {
    const account = await AccountInProcess.start()
    const before = await account.open()
    await before.drive.makeDirectory(ROOT, 'F', 0o755)
    const { handle } = await before.drive.create(await before.node('F'), 'doc', 0o644)
    await before.drive.write(handle, Buffer.from('one'), 0)
    await before.drive.flush(handle)
    await before.drive.write(handle, Buffer.from('two'), 3)
    await before.drop()
    const after = await account.open()
    expect(after.outbox.damaged()).toEqual([])
    expect(await after.read('F/doc')).toMatch(/^one/)
  })
})

it('nothing is removed from a folder before what was closed a moment ago is on the platter', async () => {
  const account = await AccountInProcess.start()
  const machine = await account.open()
  const { drive, outbox } = machine
  await drive.makeDirectory(ROOT, 'F', 0o755)
  await machine.write('F/doc', 'content')
  await outbox.sync.complete()
  await machine.write('F/copy', 'content')
  const disk = deferred()
  const complete = outbox.sync.complete.bind(outbox.sync)
  vi.spyOn(outbox.sync, 'complete').mockImplementation(async () => {
    await disk.promise
    await complete()
  })
  const removed = drive.unlink(await machine.node('F'), 'doc')
  await machine.write('G', 'elsewhere')
  const journal = (): string => readFileSync(join(changesOf(machine), 'journal.jsonl'), 'utf8')
  expect(journal()).not.toContain('"remove"')
  disk.resolve()
  await removed
  expect(journal()).toContain('"remove"')
})
