import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { deferred } from '../../../../src/domain/deferred.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'

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
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-removed-while-sent-'))
    const service = await TestService.start(join(dir, 'service'))
    const { proxy, token } = service
    const home = { url: proxy.url, token, dir: join(dir, 'state'), writeBack: true }
    let user = await DriveInProcess.open(home)
    onTestFinished(async () => {
      await user.drop()
      await service.close()
      rmSync(dir, { recursive: true, force: true })
    })
    await user.drive.makeDirectory(ROOT, 'F', 0o755)
    const { handle } = await user.drive.create(await user.node('F'), 'x', 0o644)
    await user.drive.flush(handle)
    await user.drive.release(handle)
    if (what === RENAMED) await user.drive.sync()
    const asked = deferred()
    const mayGoOn = deferred()
    const before = (): Promise<void> => {
      asked.resolve()
      return mayGoOn.promise
    }
    const answered = deferred()
    const at = { moment: 'answered', act: answered.resolve } as const
    const isKilled = how === IS_KILLED
    proxy.add({ match: { method: 'POST' }, times: 1, fault: { before, ...(isKilled && { at }) } })
    if (what === RENAMED) await user.drive.rename(ROOT, 'F', ROOT, 'G')
    const sent = user.drive.sync().catch(() => undefined)
    await asked.promise
    const name = what === RENAMED ? 'G' : 'F'
    await user.drive.unlink(await user.node(name), 'x')
    await user.drive.removeDirectory(ROOT, name)
    mayGoOn.resolve()
    if (isKilled) {
      await answered.promise
      await user.drop()
      user = await DriveInProcess.open(home)
    }
    await sent
    await user.drain()
    expect(await user.tree()).toEqual({})
    expect(user.outbox.intents().filter(({ phase }) => phase === 'local')).toEqual([])
    await user.drop()
    user = await DriveInProcess.open(home)
    expect(await user.tree()).toEqual({})
    expect(await service.contents()).toEqual({})
  },
)

describe.each([
  ['through', false],
  ['back', true],
])(
  'a folder whose new name is stored in the moment that it is emptied (mode %s)',
  (_, writeBack) => {
    let dir: string
    let service: TestService
    let user: DriveInProcess
    const home = () => ({
      url: service.proxy.url,
      token: service.token,
      dir: join(dir, 'state'),
      writeBack,
    })
    beforeEach(async () => {
      dir = mkdtempSync(join(tmpdir(), 'bagfs-removed-while-sent-'))
      service = await TestService.start(join(dir, 'service'))
      user = await DriveInProcess.open(home())
    })
    afterEach(async () => {
      await user.drop()
      await service.close()
      rmSync(dir, { recursive: true, force: true })
    })

    const write = async (path: string): Promise<void> => {
      const { parent, name } = await user.parent(path)
      const { handle } = await user.drive.create(parent, name, 0o644)
      await user.drive.flush(handle)
      await user.drive.release(handle)
    }

    /** Does it when the outbox says that the service has the folder under its new name. */
    const onceConfirmed = async (task: () => Promise<void>): Promise<void> => {
      const { proxy } = service
      const asked = deferred()
      const mayGoOn = deferred()
      const before = (): Promise<void> => {
        asked.resolve()
        return mayGoOn.promise
      }
      proxy.add({ match: { method: 'POST' }, times: 1, fault: { before } })
      const renamed = user.drive.rename(ROOT, 'F', ROOT, 'G')
      await asked.promise
      await user.drive.unlink(await user.node('G'), 'x')
      const done = new Promise<void>((resolve, reject) => {
        const end = user.outbox.onChange(() => {
          const put = user.outbox.intents().find(({ name, kind }) => name === 'G' && kind === 'put')
          if (put?.phase !== 'confirmed') return
          end()
          task().then(resolve, reject)
        })
      })
      mayGoOn.resolve()
      await done
      await renamed
    }

    it.each([
      ['removed', () => user.drive.removeDirectory(ROOT, 'G'), {}],
      ['replaced', () => user.drive.rename(ROOT, 'H', ROOT, 'G'), { 'G/y': '' }],
    ])('stays %s', async (_done, task, left) => {
      await user.drive.makeDirectory(ROOT, 'F', 0o755)
      await write('F/x')
      if ('G/y' in left) {
        await user.drive.makeDirectory(ROOT, 'H', 0o755)
        await write('H/y')
      }
      await user.drive.sync()
      await onceConfirmed(task)
      await user.drain()
      expect(await user.tree()).toEqual(left)
      await user.drop()
      user = await DriveInProcess.open(home())
      expect(await user.tree()).toEqual(left)
    })
  },
)
