import { describe, expect, it } from 'vitest'
import { isDriveError } from '../../../src/domain/errors.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const DEVICE = { kind: 'character-device', device: 0x103 } as const
const MADE = { mode: 0o640, uid: 7, gid: 8 }

async function makeNode(machine: DriveInProcess, path: string): Promise<void> {
  const { parent, name } = await machine.parent(path)
  await machine.drive.makeNode(parent, name, MADE, DEVICE)
}

async function told(machine: DriveInProcess, path: string) {
  return machine.drive.getAttributes(await machine.node(path))
}

async function rename(machine: DriveInProcess, from: string, to: string): Promise<void> {
  const source = await machine.parent(from)
  const target = await machine.parent(to)
  await machine.drive.rename(source.parent, source.name, target.parent, target.name)
}

async function code(task: Promise<unknown>): Promise<string> {
  return task.then(
    () => 'done',
    (error: unknown) => (isDriveError(error) ? error.code : String(error)),
  )
}

/** A folder with a file that is stored, and a node deep in it. */
async function begin(): Promise<{ account: AccountInProcess; machine: DriveInProcess }> {
  const account = await AccountInProcess.start()
  const machine = await account.open()
  const { parent } = await machine.parent('F')
  await machine.drive.makeDirectory(parent, 'F', 0o755)
  await machine.drive.makeDirectory(await machine.node('F'), 'd', 0o755)
  await machine.write('F/d/file', 'content')
  await machine.write('stored', 'content of the root')
  await makeNode(machine, 'F/d/node')
  await makeNode(machine, 'node')
  return { account, machine }
}

describe('a device, a fifo or a socket', () => {
  it('is of this machine, over a new start, and is never sent', async () => {
    const { account, machine } = await begin()
    const other = await account.open({}, 'other')
    await machine.drive.commands.sync()
    await machine.drain()
    await machine.drop()
    const again = await account.open()
    for (const path of ['node', 'F/d/node']) {
      expect(await told(again, path)).toMatchObject({ ...DEVICE, ...MADE, size: 0 })
    }
    expect(await again.drive.readDirectory(await again.node('F/d'))).toEqual([
      { name: 'file', kind: 'file' },
      { name: 'node', kind: 'character-device' },
    ])
    await other.listing.refreshNow()
    expect(await other.tree()).toEqual({ 'F/d/file': 'content', stored: 'content of the root' })
  })

  it('is renamed, takes a name and loses it, and keeps its directory from going', async () => {
    const { account, machine } = await begin()
    await machine.drive.commands.sync()
    await machine.drain()
    await rename(machine, 'node', 'stored')
    await rename(machine, 'F/d/node', 'F/d/file')
    await rename(machine, 'F/d', 'F/e')
    await rename(machine, 'F', 'G')
    await machine.drive.setAttributes(await machine.node('G/e/file'), { mode: 0o600 })
    expect(await code(machine.drive.removeDirectory(await machine.node('G'), 'e'))).toBe(
      'not-empty',
    )
    await machine.drive.commands.sync()
    await machine.drain()
    await machine.drop()
    const again = await account.open()
    expect(await told(again, 'stored')).toMatchObject(DEVICE)
    expect(await told(again, 'G/e/file')).toMatchObject({ ...DEVICE, mode: 0o600 })
    await again.drive.unlink(await again.node('G/e'), 'file')
    const { parent } = await again.parent('stored')
    await again.drive.unlink(parent, 'stored')
    await again.write('stored', 'a file again')
    await again.drive.commands.sync()
    await again.drain()
    await again.drop()
    const last = await account.open()
    expect(await last.tree()).toEqual({ 'G/e': null, stored: 'a file again' })
  })

  it('stays in its folder: programs make it anew elsewhere', async () => {
    const { machine } = await begin()
    expect(await code(rename(machine, 'F/d/node', 'out'))).toBe('cross-device')
    expect(await code(rename(machine, 'node', 'F/in'))).toBe('cross-device')
    expect(await code(rename(machine, 'F/d', 'd'))).toBe('cross-device')
    expect(await told(machine, 'F/d/node')).toMatchObject(DEVICE)
    expect(await machine.read('F/d/file')).toBe('content')
  })
})
