import { describe, expect, it } from 'vitest'
import { deferred } from '../../../../src/domain/deferred.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'
import type { Fault } from '../../../support/fault-proxy.ts'

/** Keeps the next upload from the service; `asked` resolves when the drive has begun it. */
function holdUpload({ service }: AccountInProcess, more: Fault = {}) {
  const asked = deferred()
  const mayGoOn = deferred()
  const before = (): Promise<void> => {
    asked.resolve()
    return mayGoOn.promise
  }
  service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { before, ...more } })
  return { asked: asked.promise, letGo: mayGoOn.resolve }
}

const NEW = 'its zip'
const RENAMED = 'its new name'
const GOES_ON = 'goes on'
const IS_KILLED = 'is killed then, and mounted again'

it.each([
  [NEW, GOES_ON],
  [NEW, IS_KILLED],
  [RENAMED, GOES_ON],
  [RENAMED, IS_KILLED],
])(
  'a folder that is emptied and removed while %s is sent stays removed, when the drive %s',
  async (what, how) => {
    const account = await AccountInProcess.start()
    let user = await account.open()
    await user.drive.makeDirectory(ROOT, 'F', 0o755)
    await user.write('F/x', '')
    if (what === RENAMED) await user.drive.commands.sync()
    const answered = deferred()
    const at = { moment: 'answered', act: answered.resolve } as const
    const upload = holdUpload(account, how === IS_KILLED ? { at } : {})
    if (what === RENAMED) await user.drive.rename(ROOT, 'F', ROOT, 'G')
    const sent = user.drive.commands.sync().catch(() => undefined)
    await upload.asked
    const name = what === RENAMED ? 'G' : 'F'
    await user.drive.unlink(await user.node(name), 'x')
    await user.drive.removeDirectory(ROOT, name)
    upload.letGo()
    if (how === IS_KILLED) {
      await answered.promise
      await user.drop()
      user = await account.open()
    }
    await sent
    await user.drain()
    expect(await user.tree()).toEqual({})
    expect(user.outbox.intents().filter(({ phase }) => phase === 'local')).toEqual([])
    await user.drop()
    user = await account.open()
    expect(await user.tree()).toEqual({})
    expect(await account.service.contents()).toEqual({})
  },
)

/** Renames the stored folder F to G, empties it, and does `task` when the outbox says that the service has it as G. */
async function onceConfirmed(
  account: AccountInProcess,
  user: DriveInProcess,
  task: () => Promise<void>,
): Promise<void> {
  const upload = holdUpload(account)
  const renamed = user.drive.rename(ROOT, 'F', ROOT, 'G')
  await upload.asked
  await user.drive.unlink(await user.node('G'), 'x')
  const done = new Promise<void>((resolve, reject) => {
    const end = user.outbox.onChange(() => {
      const put = user.outbox.intents().find(({ name, kind }) => name === 'G' && kind === 'put')
      if (put?.phase !== 'confirmed') return
      end()
      task().then(resolve, reject)
    })
  })
  upload.letGo()
  await done
  await renamed
}

describe.each([
  ['through', false],
  ['back', true],
])(
  'a folder whose new name is stored in the moment that it is emptied (mode %s)',
  (_, writeBack) => {
    it.each([
      ['removed', {}],
      ['replaced', { 'G/y': '' }],
    ])('stays %s', async (done, left) => {
      const account = await AccountInProcess.start()
      let user = await account.open({ writeBack })
      await user.drive.makeDirectory(ROOT, 'F', 0o755)
      await user.write('F/x', '')
      if (done === 'replaced') {
        await user.drive.makeDirectory(ROOT, 'H', 0o755)
        await user.write('H/y', '')
      }
      await user.drive.commands.sync()
      await onceConfirmed(account, user, () =>
        done === 'removed'
          ? user.drive.removeDirectory(ROOT, 'G')
          : user.drive.rename(ROOT, 'H', ROOT, 'G'),
      )
      await user.drain()
      expect(await user.tree()).toEqual(left)
      await user.drop()
      user = await account.open({ writeBack })
      expect(await user.tree()).toEqual(left)
    })
  },
)
