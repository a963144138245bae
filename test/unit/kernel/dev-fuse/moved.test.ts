import { constants as fsConstants } from 'node:fs'
import { expect, it } from 'vitest'
import { systemClock } from '../../../../src/domain/clock.ts'
import { silentLogger } from '../../../../src/domain/logger.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import * as wire from '../../../../src/kernel/dev-fuse/structures.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import { holdNextIntent } from '../../../support/hold-next-intent.ts'
import { SyntheticKernel, texts } from '../../../support/synthetic-kernel.ts'

const MODE = 1
const APPEND = fsConstants.O_WRONLY | fsConstants.O_APPEND
const NOTHING_SET = {
  ...{ handle: 0, size: 0, atime: 0, mtime: 0, atimeNs: 0, mtimeNs: 0, uid: 0, gid: 0 },
}

it('what the kernel asks of an open file in the moment in which it moves is done at its new place', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open()
  await user.makeDirectory('F')
  await user.write('a', 'old')
  await user.drain()
  const { drive } = user
  const kernel = await SyntheticKernel.start({ drive, log: silentLogger, clock: systemClock })
  const lookup = async (parent: number, name: string): Promise<number> =>
    wire.ENTRY_OUT.decode((await kernel.ask('LOOKUP', parent, texts(name))).body).node
  const node = await lookup(ROOT, 'a')
  const how = wire.OPEN_IN.encode({ flags: APPEND, openFlags: 0 })
  await kernel.ask('OPEN', node, how)

  const { reached, letGo } = holdNextIntent(user)
  const folder = await lookup(ROOT, 'F')
  const asked = wire.RENAME_IN.encode({ newParent: folder })
  const moved = kernel.ask('RENAME', ROOT, asked, texts('a', 'b'))
  await reached
  const opened = kernel.ask('OPEN', node, how)
  const changes = { ...NOTHING_SET, valid: MODE, mode: 0o100600 }
  const changed = kernel.ask('SETATTR', node, wire.SETATTR_IN.encode(changes))
  letGo()
  expect((await moved).error).toBeUndefined()
  expect((await changed).error).toBeUndefined()
  const { body } = await opened
  const { handle } = wire.OPEN_OUT.decode(body)
  const write = { handle, offset: 3, size: 4, writeFlags: 0, flags: APPEND }
  await kernel.ask('WRITE', node, wire.WRITE_IN.encode(write), Buffer.from(' new'))
  await kernel.ask('FLUSH', node, wire.FLUSH_IN.encode({ handle }))
  expect(await user.read('F/b')).toBe('old new')
  expect(await drive.getAttributes(await user.node('F/b'))).toMatchObject({ mode: 0o600 })
})
