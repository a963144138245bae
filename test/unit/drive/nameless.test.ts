import { expect, it } from 'vitest'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

const CASES = ['the root', 'a folder'].flatMap((where) =>
  [true, false].map((writeBack) => ({ where, writeBack })),
)

it.each(CASES)(
  'a file that was made without a name in $where is safe once it has one (write back: $writeBack)',
  async ({ where, writeBack }) => {
    const account = await AccountInProcess.start()
    let machine = await account.open({ writeBack })
    await machine.makeDirectory('F')
    await machine.write('F/first', 'first')
    await machine.drive.commands.sync()
    const parent = where === 'the root' ? ROOT : await machine.node('F')
    const path = where === 'the root' ? 'name' : 'F/name'
    const { drive } = machine
    const lost = await drive.createNameless(parent, 0o600)
    await drive.write(lost.handle, Buffer.from('lost'), 0)
    const { handle } = await drive.createNameless(parent, 0o600)
    await drive.write(handle, Buffer.from('before '), 0)
    await drive.flush(handle)
    // What it was written beside is stored, and gone, when it gets its name.
    await machine.write('F/second', 'second')
    await drive.commands.sync()
    await expect(
      drive.link(handle, parent, where === 'the root' ? 'F' : 'first'),
    ).rejects.toMatchObject({
      code: 'exists',
    })
    await drive.link(handle, parent, 'name')
    expect(await machine.read(path)).toBe('before ')
    await machine.drop()
    machine = await account.open({ writeBack })
    const wanted = { 'F/first': 'first', 'F/second': 'second', [path]: 'before ' }
    expect(await machine.tree()).toEqual(wanted)
    await machine.drain()
    const elsewhere = await account.open({}, 'elsewhere')
    expect(await elsewhere.tree()).toEqual(wanted)
  },
)

it('a file without a name is named in the folder that it was made in, and nowhere else', async () => {
  const account = await AccountInProcess.start()
  const machine = await account.open()
  for (const name of ['F', 'G']) await machine.makeDirectory(name)
  const { drive } = machine
  const [inF, inG] = [await machine.node('F'), await machine.node('G')]
  const ofRoot = await drive.createNameless(ROOT, 0o600)
  const ofF = await drive.createNameless(inF, 0o600)
  for (const [handle, parent] of [
    [ofRoot.handle, inF],
    [ofF.handle, inG],
    [ofF.handle, ROOT],
  ] as const) {
    await expect(drive.link(handle, parent, 'name')).rejects.toMatchObject({ code: 'cross-device' })
  }
  await drive.link(ofF.handle, inF, 'name')
  await expect(drive.link(ofF.handle, inF, 'other')).rejects.toMatchObject({
    code: 'not-permitted',
  })
  for (const { handle } of [ofRoot, ofF]) await drive.release(handle)
  expect(await machine.tree()).toEqual({ 'F/name': '', G: null })
})
