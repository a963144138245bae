import { describe, expect, it } from 'vitest'
import type { KeptAttributes } from '../../../src/domain/attributes.ts'
import type { Attributes } from '../../../src/drive/tree/attributes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

/** All that can be set, each other than what it is without. */
const SET: KeptAttributes = {
  mode: 0o6751,
  mtimeMs: -86_400_000.001,
  atimeMs: 1_000_000_000_123.456,
  uid: 1001,
  gid: 2_000_000_000,
}

const { mode, ...OWNER_AND_TIMES } = SET

async function attributes(machine: DriveInProcess, path: string): Promise<Attributes> {
  return machine.drive.getAttributes(await machine.node(path))
}

async function set(machine: DriveInProcess, path: string, changes: Partial<KeptAttributes>) {
  await machine.drive.setAttributes(await machine.node(path), changes)
  return attributes(machine, path)
}

const PLACES: readonly { what: string; path: string; wanted?: Partial<KeptAttributes> }[] = [
  { what: 'a file of the root', path: 'file' },
  { what: 'a folder', path: 'folder' },
  { what: 'a file in a folder', path: 'folder/file' },
  { what: 'a directory in a folder', path: 'folder/directory' },
  // What a link has for a mode says nothing.
  { what: 'a link in a folder', path: 'folder/link', wanted: OWNER_AND_TIMES },
]

async function fill(machine: DriveInProcess): Promise<void> {
  const { drive } = machine
  const { parent } = await machine.parent('folder')
  await drive.makeDirectory(parent, 'folder', 0o755)
  const folder = await machine.node('folder')
  await drive.makeDirectory(folder, 'directory', 0o755)
  await drive.makeSymlink(folder, 'link', 'file')
  for (const path of ['file', 'folder/file', 'folder/directory/deep']) {
    await machine.write(path, path)
  }
}

describe('mode, times and owner', () => {
  it.each(PLACES)(
    'of $what are kept, waiting and stored, by the next process too',
    async ({ path, wanted = SET }) => {
      const account = await AccountInProcess.start()
      let machine = await account.open()
      await fill(machine)
      const told = await set(machine, path, wanted)
      expect(told).toMatchObject(wanted)
      const kept = { ...wanted, ctimeMs: told.ctimeMs }
      await machine.drop()
      machine = await account.open()
      expect(await attributes(machine, path)).toMatchObject(kept)
      await machine.drive.commands.sync()
      await machine.drain()
      expect(await attributes(machine, path)).toMatchObject(kept)
      await machine.drop()
      machine = await account.open()
      expect(await attributes(machine, path)).toMatchObject(kept)
    },
  )

  it.each(['file', 'folder'])(
    'of a %s that was stored a moment ago are kept by a kill',
    async (path) => {
      const account = await AccountInProcess.start()
      const settings = { folderRestMs: 20, listingLagMs: 60_000 }
      let machine = await account.open({ settings })
      await fill(machine)
      const before = JSON.stringify(await account.service.list())
      const phase = () => machine.outbox.named(path).map((intent) => intent.phase)
      await expect.poll(phase).toEqual(['confirmed'])
      // The stored version shows from now on, and the folder goes on to collect changes.
      await machine.drive.commands.refresh()
      if (path === 'folder') await machine.write('folder/more', 'more')
      const told = await set(machine, path, { ...SET, extended: { 'user.a': 'MQ==' } })
      await machine.drop()
      const headers = { 'content-type': 'application/json' }
      const late = { status: 200, headers, body: before }
      for (const fault of [{}, { answer: late }]) {
        account.service.proxy.clear()
        account.service.proxy.add({ match: { path: /files_list/ }, fault })
        machine = await account.open({ settings })
        const { mode: ofMode, mtimeMs, uid, extended } = told
        expect(await attributes(machine, path)).toMatchObject({
          ...{ mode: ofMode, mtimeMs, uid, extended },
        })
        await machine.drop()
      }
    },
  )

  it('of a folder leave the time of what came into it', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    const { ctimeMs } = await set(machine, 'folder', { mtimeMs: 1_000_000_000_000 })
    await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(ctimeMs)
    await machine.write('folder/new', 'new')
    const { mtimeMs } = await attributes(machine, 'folder')
    expect(mtimeMs).toBeGreaterThan(1_000_000_000_000)
    const changed = await set(machine, 'folder', { mode: 0o700 })
    expect(changed.mtimeMs).toBe(mtimeMs)
  })

  it('are set again one by one, and ctime moves with each', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    await machine.drive.commands.sync()
    await machine.drain()
    for (const { path } of PLACES) {
      let { atimeMs, ctimeMs } = await attributes(machine, path)
      for (const change of [{ mtimeMs: 5 }, { mode: 0o1700 }, { uid: 7 }, { gid: 8 }, {}]) {
        await new Promise((resolve) => setTimeout(resolve, 2))
        const told = await set(machine, path, change)
        expect(told).toMatchObject({ ...change, atimeMs })
        expect(told.ctimeMs).toBeGreaterThan(ctimeMs)
        ;({ atimeMs, ctimeMs } = told)
      }
    }
  })

  it('go along into a folder, out of it, and with a new name', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    await set(machine, 'file', SET)
    await set(machine, 'folder/directory/deep', SET)
    const move = async (from: string, to: string): Promise<void> => {
      const source = await machine.parent(from)
      const target = await machine.parent(to)
      await machine.drive.rename(source.parent, source.name, target.parent, target.name)
      expect(await attributes(machine, to)).toMatchObject(SET)
    }
    await move('file', 'renamed')
    await machine.drive.commands.sync()
    await machine.drain()
    await move('renamed', 'again')
    await move('again', 'folder/moved')
    await move('folder/moved', 'folder/directory/moved')
    await move('folder/directory/moved', 'back')
    await move('folder/directory/deep', 'out')
  })

  it('but the times are as before when a file is written over', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    for (const path of ['file', 'folder/file']) {
      await set(machine, path, SET)
      await machine.drive.commands.sync()
      await machine.drain()
      await machine.write(path, 'other content')
      const { mtimeMs, ctimeMs, ...told } = await attributes(machine, path)
      expect(told).toMatchObject({ mode: SET.mode, uid: SET.uid, gid: SET.gid })
      expect(Date.now() - mtimeMs).toBeLessThan(60_000)
      expect(ctimeMs).toBe(mtimeMs)
    }
  })

  it('make no upload of a folder where nothing but the time of reading is another', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    await set(machine, 'folder/file', SET)
    await machine.drive.commands.sync()
    await machine.drain()
    const { uid, gid } = SET
    const told = await set(machine, 'folder/file', { mode, uid, gid, atimeMs: 17 })
    expect(told).toMatchObject({ ...SET, atimeMs: 17 })
    expect(machine.outbox.intents().filter(({ phase }) => phase !== 'confirmed')).toEqual([])
  })
})

describe('a directory in a folder', () => {
  it('counts the directories in it among its links, looked into or not', async () => {
    const account = await AccountInProcess.start()
    let machine = await account.open()
    await fill(machine)
    const count = async (path: string) => (await attributes(machine, path)).links
    await machine.drive.makeDirectory(await machine.node('folder/directory'), 'inner', 0o755)
    expect([await count('folder'), await count('folder/directory')]).toEqual([3, 3])
    await machine.drive.commands.sync()
    await machine.drain()
    await machine.drop()
    machine = await account.open()
    expect(await count('folder/directory')).toBe(3)
    expect(await count('folder')).toBe(3)
    expect(await count('folder/file')).toBeUndefined()
    await machine.drive.removeDirectory(await machine.node('folder/directory'), 'inner')
    expect(await count('folder/directory')).toBe(2)
  })

  it('counts them after each way in which a name can change its place', async () => {
    const machine = await (await AccountInProcess.start()).open()
    await fill(machine)
    const top = await machine.node('folder')
    const inner = await machine.node('folder/directory')
    const count = async (path: string) => (await attributes(machine, path)).links
    await machine.drive.makeDirectory(inner, 'one', 0o755)
    await machine.drive.makeDirectory(top, 'two', 0o755)
    await machine.drive.rename(inner, 'one', top, 'two')
    expect([await count('folder'), await count('folder/directory')]).toEqual([4, 2])
    await machine.drive.exchange(top, 'two', top, 'file')
    expect(await count('folder')).toBe(4)
    await machine.drive.makeSymlink(inner, 'link', 'nowhere')
    await machine.drive.exchange(top, 'file', inner, 'link')
    expect([await count('folder'), await count('folder/directory')]).toEqual([3, 3])
  })
})

describe('a file', () => {
  it('cannot be lengthened beyond what the account could ever hold', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    for (const path of ['file', 'folder/file']) {
      const node = await machine.node(path)
      const cut = machine.drive.truncate(node, 999_999_999_999_999)
      await expect(cut).rejects.toMatchObject({ code: 'too-large' })
      expect(await machine.read(path)).toBe(path)
    }
  })
})

describe('what is made in a directory with the set-group-ID bit', () => {
  it('is of its group, and a directory hands that on', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await fill(machine)
    for (const path of ['folder', 'folder/directory']) {
      await set(machine, path, { mode: 0o2775, gid: 500 })
      const above = await machine.node(path)
      const owner = { uid: 7, gid: 8 }
      await machine.drive.makeDirectory(above, 'inside', 0o755, owner)
      const made = await machine.drive.create(above, 'made', 0o644, { owner })
      await machine.drive.release(made.handle)
      expect(await attributes(machine, `${path}/inside`)).toMatchObject({
        mode: 0o2755,
        uid: 7,
        gid: 500,
      })
      expect(await attributes(machine, `${path}/made`)).toMatchObject({
        mode: 0o644,
        uid: 7,
        gid: 500,
      })
    }
  })
})
