import { beforeEach, describe, expect, it, vi } from 'vitest'
import { FolderRoom } from '../../../src/drive/folders/folder-room.ts'
import { FolderRounds } from '../../../src/drive/folders/folder-rounds.ts'
import { RootNodes } from '../../../src/drive/root/root-nodes.ts'
import { RootRoom } from '../../../src/drive/root/room-beside.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

/** Runs a task before a change goes on from a step in which it may wait for the service. */
const atStep = {
  folderRoom: (task: () => Promise<void>) => {
    vi.spyOn(FolderRoom.prototype, 'check').mockImplementationOnce(task)
  },
  rootRoom: (task: () => Promise<void>) => {
    vi.spyOn(RootRoom.prototype, 'check').mockImplementationOnce(task)
  },
  download: (task: () => Promise<void>) => {
    vi.spyOn(FolderRounds.prototype, 'confirmBase').mockImplementationOnce(task)
  },
  kind: (task: () => Promise<void>) => {
    vi.spyOn(RootNodes.prototype, 'learnForChange').mockImplementationOnce(task)
  },
} as const

interface Case {
  readonly title: string
  readonly step: keyof typeof atStep
  /** What is stored before. */
  readonly before: Readonly<Record<string, string | null>>
  /** What another machine changes while the change waits. */
  readonly elsewhere: (a: DriveInProcess) => Promise<void>
  /** A new name, none for a removal; or the name of a new file. */
  readonly change: { readonly from: string; readonly to?: string } | { readonly make: string }
  /** What may not be lost. */
  readonly kept: Readonly<Record<string, string>>
}

const CASES: readonly Case[] = [
  {
    title: 'a directory that is renamed over another, which is not empty',
    step: 'folderRoom',
    before: { 'F/s/old': 'old', 'F/s/e': null, 'F/s/d/kept': 'kept' },
    elsewhere: (a) => a.write('F/s/old', 'new'),
    change: { from: 'F/s/e', to: 'F/s/d' },
    kept: { 'F/s/d/kept': 'kept', 'F/s/old': 'new' },
  },
  {
    title: 'a directory that is moved to another folder, and filled',
    step: 'folderRoom',
    before: { 'F/s/e': null, 'G/g': 'g' },
    elsewhere: (a) => a.write('F/s/e/kept', 'kept'),
    change: { from: 'F/s/e', to: 'G/e' },
    kept: { 'F/s/e/kept': 'kept' },
  },
  {
    title: 'a directory that is moved to the root, and filled',
    step: 'rootRoom',
    before: { 'F/s/e': null },
    elsewhere: (a) => a.write('F/s/e/kept', 'kept'),
    change: { from: 'F/s/e', to: 'E' },
    kept: { 'F/s/e/kept': 'kept' },
  },
  {
    title: 'a folder in which a file is made',
    step: 'folderRoom',
    before: { 'F/s/old': 'old' },
    elsewhere: (a) => a.write('F/s/old', 'new'),
    change: { make: 'F/s/made' },
    kept: { 'F/s/old': 'new' },
  },
  {
    title: 'a folder that is moved into another, and changed',
    step: 'download',
    before: { 'F/old': 'old', 'G/g': 'g' },
    elsewhere: (a) => a.write('F/kept', 'kept'),
    change: { from: 'F', to: 'G/F' },
    kept: { 'F/old': 'old', 'F/kept': 'kept' },
  },
  {
    title: 'a file that is removed, and has become a folder',
    step: 'kind',
    before: { F: 'file', 'G/g': 'g' },
    elsewhere: putFolder,
    change: { from: 'F' },
    kept: { 'F/kept': 'kept' },
  },
  {
    title: 'a file that another is renamed over, and that has become a folder',
    step: 'rootRoom',
    before: { F: 'file', G: 'other' },
    elsewhere: putFolder,
    change: { from: 'G', to: 'F' },
    kept: { 'F/kept': 'kept', G: 'other' },
  },
]

it('a folder that is filled while another is renamed over it stays', async () => {
  const account = await AccountInProcess.start()
  const b = await account.open()
  await store(b, { 'G/g': 'g' })
  await b.drive.makeDirectory(ROOT, 'F', 0o755)
  await b.tree()
  atStep.rootRoom(() => b.write('F/kept', 'kept'))
  await expect(carryOut(b, { from: 'G', to: 'F' })).rejects.toMatchObject({ code: 'not-empty' })
  await b.drive.commands.sync()
  expect(await b.tree()).toMatchObject({ 'F/kept': 'kept', 'G/g': 'g' })
})

describe('what another machine stored while a change waits is not lost', () => {
  let a: DriveInProcess
  let b: DriveInProcess
  beforeEach(async () => {
    const account = await AccountInProcess.start()
    a = await account.open({}, 'a')
    b = await account.open({}, 'b')
  })

  it.each(CASES)('$title', async ({ step, before, elsewhere, change, kept }) => {
    await store(a, before)
    await b.listing.refreshNow()
    await b.tree()
    atStep[step](async () => {
      await elsewhere(a)
      await a.drive.commands.sync()
      await b.listing.refreshNow()
      // Another program looks, and the names may mean what was stored.
      await b.tree()
    })
    const refusal = expect.stringMatching(/^(stale|is-a-directory)$/) as unknown
    await expect(carryOut(b, change)).rejects.toMatchObject({ code: refusal })
    await b.drive.commands.sync()
    await a.listing.refreshNow()
    expect(await b.tree()).toMatchObject(kept)
    expect(await a.tree()).toMatchObject(kept)
    // The kernel looks at the names again, and so does this.
    await carryOut(b, change).catch(() => undefined)
    await b.drive.commands.sync()
    await a.listing.refreshNow()
    expect(Object.values(await a.tree())).toEqual(expect.arrayContaining(Object.values(kept)))
  })
})

async function store(a: DriveInProcess, files: Case['before']): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    const names = path.split('/')
    for (const depth of names.keys()) {
      const isDirectory = depth < names.length - 1 || content === null
      if (isDirectory) await makeDirectory(a, names.slice(0, depth + 1).join('/'))
    }
    if (content !== null) await a.write(path, content)
  }
  await a.drive.commands.sync()
}

async function putFolder(a: DriveInProcess): Promise<void> {
  await a.drive.unlink(ROOT, 'F')
  await a.drive.makeDirectory(ROOT, 'F', 0o755)
  await a.write('F/kept', 'kept')
}

async function makeDirectory(a: DriveInProcess, path: string): Promise<void> {
  const { parent, name } = await a.parent(path)
  const entries = await a.drive.readDirectory(parent)
  if (!entries.some((entry) => entry.name === name))
    await a.drive.makeDirectory(parent, name, 0o755)
}

async function carryOut(b: DriveInProcess, change: Case['change']): Promise<void> {
  if ('make' in change) {
    const { parent, name } = await b.parent(change.make)
    await b.drive.release((await b.drive.create(parent, name, 0o644)).handle)
    return
  }
  const { parent, name } = await b.parent(change.from)
  if (change.to === undefined) await b.drive.unlink(parent, name)
  else {
    const to = await b.parent(change.to)
    await b.drive.rename(parent, name, to.parent, to.name)
  }
}
