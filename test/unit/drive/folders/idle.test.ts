import { expect, it } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'

it('folders that nothing happens in are let go of when many are open, and are opened again', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open({ tuning: { idleFolders: { count: 2, keptMs: 0 } } })
  const write = (path: string): Promise<void> => user.write(path, path)
  for (const name of ['stored', 'read', 'changed']) {
    await user.drive.makeDirectory(ROOT, name, 0o755)
    await write(`${name}/x`)
  }
  await user.drive.commands.sync()
  const [stored, read, changed] = [
    await user.node('stored/x'),
    await user.node('read/x'),
    await user.node('changed/x'),
  ]
  const handle = await user.open('read/x')
  await write('changed/y')
  await user.drive.makeDirectory(ROOT, 'more', 0o755)
  await write('more/x')
  expect([stored, read, changed].map((node) => user.drive.knows(node))).toEqual([false, true, true])
  expect(await user.readAll(handle)).toBe('read/x')
  await user.drive.release(handle)
  const whole = ['changed/x', 'changed/y', 'more/x', 'read/x', 'stored/x']
  expect(await user.tree()).toEqual(Object.fromEntries(whole.map((path) => [path, path])))
  await user.drain()
  expect(await user.tree()).toEqual(Object.fromEntries(whole.map((path) => [path, path])))
})
