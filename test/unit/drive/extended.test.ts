import { describe, expect, it } from 'vitest'
import { isDriveError } from '../../../src/domain/errors.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const PATHS = ['file', 'folder', 'folder/d/file'] as const
const VALUE = Buffer.from([0, 255, 10, 65])

async function begin(): Promise<{ account: AccountInProcess; machine: DriveInProcess }> {
  const account = await AccountInProcess.start()
  const machine = await account.open()
  await machine.drive.makeDirectory(ROOT, 'folder', 0o755)
  await machine.drive.makeDirectory(await machine.node('folder'), 'd', 0o755)
  for (const path of ['file', 'folder/d/file']) await machine.write(path, path)
  return { account, machine }
}

async function store(machine: DriveInProcess): Promise<void> {
  await machine.drive.commands.sync()
  await machine.drain()
}

async function code(task: Promise<unknown>): Promise<string> {
  return task.then(
    () => 'done',
    (error: unknown) => (isDriveError(error) ? error.code : String(error)),
  )
}

describe('an extended attribute of a program', () => {
  it('is kept on this machine, waiting and stored, by the next process too', async () => {
    const { account, machine } = await begin()
    for (const isStored of [false, true]) {
      if (isStored) await store(machine)
      for (const path of PATHS) {
        await machine.drive.extended.set(
          await machine.node(path),
          `user.${String(isStored)}`,
          VALUE,
        )
      }
    }
    await store(machine)
    await machine.drop()
    const again = await account.open()
    for (const path of PATHS) {
      const node = await again.node(path)
      for (const name of ['user.false', 'user.true']) {
        expect(await again.drive.extended.get(node, name)).toEqual(VALUE)
        expect(await again.drive.extended.list(node)).toContain(name)
      }
    }
    const other = await account.open({}, 'other')
    const seen = await other.drive.extended.list(await other.node('folder/d/file'))
    expect(seen.filter((name) => !name.startsWith('user.bagfs.'))).toEqual([])
  })

  it('is no reason to store a folder anew, and goes along with a name', async () => {
    const { account, machine } = await begin()
    await store(machine)
    await machine.drive.extended.set(await machine.node('folder/d/file'), 'user.tag', VALUE)
    await store(machine)
    const waiting = machine.outbox.intents().filter(({ phase }) => phase !== 'confirmed')
    expect(waiting).toEqual([])
    await machine.drive.rename(await machine.node('folder'), 'd', await machine.node('folder'), 'e')
    await machine.drive.rename(await machine.node('folder/e'), 'file', ROOT, 'out')
    await machine.drive.rename(ROOT, 'out', await machine.node('folder'), 'in')
    await store(machine)
    await machine.drop()
    const again = await account.open()
    expect(await again.drive.extended.get(await again.node('folder/in'), 'user.tag')).toEqual(VALUE)
  })

  it('goes along with a directory that moves to the root', async () => {
    const { account, machine } = await begin()
    await store(machine)
    await machine.drive.extended.set(await machine.node('folder/d/file'), 'user.tag', VALUE)
    await machine.rename('folder/d', 'moved')
    await store(machine)
    await machine.drop()
    const again = await account.open()
    expect(await again.drive.extended.get(await again.node('moved/file'), 'user.tag')).toEqual(
      VALUE,
    )
  })

  it('is made, replaced and removed as asked, and others are refused', async () => {
    const { machine } = await begin()
    for (const path of PATHS) {
      const { drive } = machine
      const node = await machine.node(path)
      const set = (name: string, must: 'make' | 'replace', value = VALUE) =>
        code(drive.extended.set(node, name, value, { must }))
      expect(await set('user.a', 'replace')).toBe('no-attribute')
      expect(await set('user.a', 'make')).toBe('done')
      expect(await set('user.a', 'make')).toBe('exists')
      expect(await set('user.a', 'replace', Buffer.alloc(0))).toBe('done')
      expect(await drive.extended.get(node, 'user.a')).toHaveLength(0)
      expect(await set('user.large', 'make', Buffer.alloc(1 << 17))).toBe('no-space')
      expect(await code(drive.extended.remove(node, 'user.a'))).toBe('done')
      expect(await code(drive.extended.get(node, 'user.a'))).toBe('no-attribute')
      expect(await code(drive.extended.remove(node, 'user.a'))).toBe('no-attribute')
      expect(await set('trusted.a', 'make')).toBe('unsupported')
      expect(await set('user.bagfs.state', 'make')).toBe('unsupported')
    }
    expect(await code(machine.drive.extended.set(ROOT, 'user.a', VALUE))).toBe('unsupported')
  })
})
