import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { Accesses } from '../../../src/drive/tree/accesses.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

const LONG_AGO = { atimeMs: 1_000_000_000_000, mtimeMs: 1_100_000_000_000 }
const AFTER = 1_200_000_000_000

async function atime(machine: DriveInProcess, path: string): Promise<number> {
  return (await machine.drive.getAttributes(await machine.node(path))).atimeMs
}

async function set(machine: DriveInProcess, path: string, changes: object): Promise<void> {
  await machine.drive.setAttributes(await machine.node(path), changes)
}

/** Files of the root and of a folder, in the directory of one and deep in it. */
const PATHS = ['file', 'F/file', 'F/d/file']

async function start({ isStored }: { readonly isStored: boolean }) {
  const account = await AccountInProcess.start()
  const machine = await account.open()
  await machine.makeDirectory('F')
  await machine.makeDirectory('F/d')
  for (const path of PATHS) {
    await machine.write(path, path)
    await set(machine, path, LONG_AGO)
  }
  if (isStored) await machine.drain()
  await machine.drive.commands.refresh()
  return { account, machine }
}

describe('the time of the last read', () => {
  it.each([true, false])(
    'moves once after a change, is kept by the next process, and sends nothing (stored: %s)',
    async (isStored) => {
      const { account, machine } = await start({ isStored })
      const uploads = account.service.uploads().length
      const before = Date.now()
      const read = new Map<string, number>()
      for (const path of PATHS) {
        const { drive } = machine
        const { ctimeMs } = await drive.getAttributes(await machine.node(path))
        expect(await machine.read(path)).toBe(path)
        read.set(path, await atime(machine, path))
        expect(read.get(path)).toBeGreaterThanOrEqual(before)
        expect(await drive.getAttributes(await machine.node(path))).toMatchObject({
          mtimeMs: LONG_AGO.mtimeMs,
          ctimeMs,
        })
        await machine.read(path)
        expect(await atime(machine, path)).toBe(read.get(path))
      }
      if (isStored) {
        expect(machine.outbox.intents().filter(({ phase }) => phase !== 'confirmed')).toEqual([])
        expect(account.service.uploads()).toHaveLength(uploads)
      } else await machine.drain()
      await machine.drop()
      const next = await account.open()
      for (const path of PATHS) expect(await atime(next, path), path).toBe(read.get(path))
    },
  )

  it('stays where nothing changed since, or where a program asks for that', async () => {
    const { machine } = await start({ isStored: true })
    for (const path of PATHS) {
      const node = await machine.node(path)
      const quiet = { writable: false, truncate: false, keepsAtime: true }
      const handle = await machine.drive.open(node, quiet)
      await machine.readAll(handle)
      await machine.drive.release(handle)
      expect(await atime(machine, path)).toBe(LONG_AGO.atimeMs)
      // Written only, and looked at only.
      const writer = await machine.drive.open(node, { writable: true, truncate: false })
      await machine.drive.release(writer)
      expect(await atime(machine, path)).toBe(LONG_AGO.atimeMs)
      // A handle for both is one that reads once it does.
      const both = await machine.drive.open(node, { writable: true, truncate: false })
      await machine.readAll(both)
      await machine.drive.release(both)
      expect(await atime(machine, path)).toBeGreaterThan(AFTER)
    }
  })

  it('that is set alone is kept by the next process, and no reason to store a folder', async () => {
    const { account, machine } = await start({ isStored: true })
    for (const path of PATHS) await set(machine, path, { atimeMs: AFTER })
    await set(machine, 'F/d', { atimeMs: AFTER + 1 })
    await machine.rename('F', 'G')
    await machine.rename('G/d', 'G/e')
    await machine.drop()
    let next = await account.open()
    expect(await atime(next, 'G/file')).toBe(AFTER)
    expect(await atime(next, 'G/e/file')).toBe(AFTER)
    expect(await atime(next, 'G/e')).toBe(AFTER + 1)
    await next.drain()
    await set(next, 'G/file', { atimeMs: AFTER + 2 })
    expect(next.outbox.intents().filter(({ phase }) => phase !== 'confirmed')).toEqual([])
    await next.drop()
    next = await account.open()
    expect(await atime(next, 'G/file')).toBe(AFTER + 2)
    expect(await atime(next, 'file')).toBe(AFTER)
  })

  it('goes along with every change of a name, and into and out of folders', async () => {
    const account = await AccountInProcess.start()
    let machine = await account.open()
    for (const path of ['F', 'F/d', 'F/d/e', 'H', 'J']) await machine.makeDirectory(path)
    const moves = [
      { from: 'a', to: 'renamed' },
      { from: 'b', to: 'H/b' },
      { from: 'F/c', to: 'c' },
      { from: 'F/f', to: 'F/d/f' },
      { from: 'F/g', to: 'H/g' },
    ]
    // In what is renamed in the end.
    const inside = ['F/d/e/h', 'H/i', 'J/j'].map((path) => ({ from: path, to: path }))
    for (const { from } of [...moves, ...inside]) {
      await machine.write(from, from)
      await set(machine, from, LONG_AGO)
    }
    await machine.drain()
    const read = new Map<string, number>()
    for (const { from, to } of [...moves, ...inside]) {
      await machine.read(from)
      read.set(to, await atime(machine, from))
      expect(read.get(to)).toBeGreaterThan(AFTER)
    }
    for (const { from, to } of moves) await machine.rename(from, to)
    await machine.drop()
    machine = await account.open()
    // A directory whose inside nothing has looked at yet.
    await machine.rename('F/d', 'F/other')
    await machine.rename('H', 'I')
    await machine.drive.exchange(ROOT, 'I', ROOT, 'J')
    await machine.drop()
    machine = await account.open()
    for (const [path, atimeMs] of read) {
      const now = path.replace(/^J/, 'I').replace(/^H/, 'J').replace('F/d', 'F/other')
      expect(await atime(machine, now), now).toBe(atimeMs)
    }
  })

  it('is the one that is set after a read, alone or with others', async () => {
    const { machine } = await start({ isStored: true })
    for (const path of PATHS) {
      for (const changes of [LONG_AGO, { atimeMs: AFTER }]) {
        await machine.read(path)
        await set(machine, path, changes)
        expect(await atime(machine, path), path).toBe(changes.atimeMs)
      }
    }
  })

  it('is not that of something that had the name before', async () => {
    const { account, machine } = await start({ isStored: true })
    for (const path of PATHS) await machine.read(path)
    await machine.drop()
    const next = await account.open()
    await next.remove('F')
    await next.remove('file')
    await next.makeDirectory('F')
    await next.makeDirectory('F/d')
    for (const path of PATHS) {
      await next.write(path, 'other')
      await set(next, path, { mtimeMs: LONG_AGO.mtimeMs, atimeMs: LONG_AGO.atimeMs })
    }
    await next.drain()
    await next.drop()
    const last = await account.open()
    for (const path of PATHS) expect(await atime(last, path), path).toBe(LONG_AGO.atimeMs)
  })

  it('stays in a drive that is mounted to be read only', async () => {
    const { account, machine } = await start({ isStored: true })
    await machine.drop()
    const reader = await account.open({ settings: { readOnly: true } })
    for (const path of PATHS) {
      const before = await atime(reader, path)
      expect(await reader.read(path)).toBe(path)
      expect(await atime(reader, path), path).toBe(before)
    }
  })
})

describe('times of the last read', () => {
  function begin() {
    const clock = new ManualClock()
    return { clock, accesses: new Accesses({ clock, log: silentLogger }, { readOnly: false }) }
  }

  it('move after a change of content or of anything else, and once a day', () => {
    const { accesses } = begin()
    const now = 1e12
    const kept = { mode: 0, mtimeMs: now - 3000, ctimeMs: now - 2000, atimeMs: now - 1000 }
    expect(accesses.isMoving(kept, now)).toBe(false)
    expect(accesses.isMoving({ ...kept, mtimeMs: now - 500 }, now)).toBe(true)
    expect(accesses.isMoving({ ...kept, ctimeMs: now - 500 }, now)).toBe(true)
    expect(accesses.isMoving({ mode: 0, mtimeMs: now - 3000 }, now)).toBe(true)
    expect(accesses.isMoving(kept, now + 86_400_000)).toBe(true)
  })

  it('are written down together, a minute after the first; one that cannot be costs no other', async () => {
    const { clock, accesses } = begin()
    const kept: string[] = []
    const [one, other] = [{}, {}]
    accesses.note(one, () => void kept.push('one'))
    clock.move(59_000)
    accesses.note(other, () => Promise.reject(new Error('full')))
    accesses.note(one, () => void kept.push('one, later'))
    expect(kept).toEqual([])
    clock.move(1_000)
    await expect.poll(() => kept).toEqual(['one, later'])
    accesses.note(other, () => void kept.push('other'))
    await accesses.keepAll()
    expect(kept).toEqual(['one, later', 'other'])
  })
})
