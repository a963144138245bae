import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TUNING } from '../../../../src/mount/build-drive.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'
import { UPLOAD } from '../../../support/uploads.ts'

/** No second try comes by itself. */
const ONCE = { uploads: { ...TUNING.uploads, retryBaseMs: 600_000, retryMaxMs: 600_000 } }

describe.each([true, false])(
  'a folder that was stored and not answered (back: %s)',
  (writeBack) => {
    let account: AccountInProcess
    let user: DriveInProcess
    const open = (folderRestMs = 1): Promise<DriveInProcess> =>
      account.open({ writeBack, tuning: ONCE, settings: { folderRestMs } })
    beforeEach(async () => {
      account = await AccountInProcess.start()
      user = await open()
      account.service.proxy.add({ match: UPLOAD, fault: { loseAnswer: true }, times: 1 })
      await user.makeDirectory('F')
      await user.write('F/x', 'x')
      const failed = () => user.outbox.named('F').some(({ failure }) => failure !== undefined)
      await expect.poll(failed).toBe(true)
      expect(await account.service.list()).toHaveLength(1)
    })
    afterEach(() => user.drop())

    const isEverywhere = async (expected: Readonly<Record<string, string>>): Promise<void> => {
      expect(await user.tree()).toEqual(expected)
      await user.drain()
      expect(await user.tree()).toEqual(expected)
      const next = await account.open({}, 'next')
      expect(await next.tree()).toEqual(expected)
      await next.drop()
    }

    it('is at its new name only', async () => {
      await user.rename('F', 'G')
      await user.listing.refreshNow()
      await isEverywhere({ 'G/x': 'x' })
    })

    it('is at the last of its names only, and has what was changed since', async () => {
      await user.write('F/y', 'y')
      await user.rename('F', 'G')
      await user.rename('G', 'H')
      await isEverywhere({ 'H/x': 'x', 'H/y': 'y' })
    })

    it('leaves its name free', async () => {
      await user.rename('F', 'G')
      await user.makeDirectory('F')
      await user.write('F/z', 'z')
      await isEverywhere({ 'F/z': 'z', 'G/x': 'x' })
    })

    it('is at its new name only, also when it was killed', async () => {
      await user.rename('F', 'G')
      await user.drop()
      user = await open()
      await isEverywhere({ 'G/x': 'x' })
    })

    it('is nowhere when it is removed at its new name', async () => {
      await user.rename('F', 'G')
      await user.remove('G')
      await isEverywhere({})
    })

    it.each([
      ['nothing', {}],
      ['a file', { G: 'file' }],
    ])('is nowhere when it was killed, and %s takes its place', async (_, expected) => {
      account.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 503 } } })
      await user.rename('F', 'G')
      await user.drop()
      user = await open(600_000)
      await user.write('G/y', 'y')
      await user.drop()
      account.service.proxy.clear()
      user = await open(600_000)
      expect(user.outbox.named('G')).toMatchObject([{ phase: 'held' }])
      await user.remove('G')
      for (const [name, content] of Object.entries(expected)) await user.write(name, content)
      await isEverywhere(expected)
    })

    it('is in the place of another folder only', async () => {
      await user.makeDirectory('G')
      await user.rename('F', 'G')
      await isEverywhere({ 'G/x': 'x' })
    })

    it('has the name of the other where two change their names', async () => {
      await user.makeDirectory('G')
      await user.write('G/y', 'y')
      const { parent } = await user.parent('F')
      await user.drive.exchange(parent, 'F', parent, 'G')
      await isEverywhere({ 'F/y': 'y', 'G/x': 'x' })
    })
  },
)

describe('a stored folder that was stored under another name, and not answered', () => {
  let account: AccountInProcess
  let user: DriveInProcess
  beforeEach(async () => {
    account = await AccountInProcess.start()
    user = await account.open({ tuning: ONCE, settings: { folderRestMs: 1 } })
    await user.makeDirectory('F')
    await user.write('F/x', 'x')
    await user.drain()
    account.service.proxy.add({ match: UPLOAD, fault: { loseAnswer: true }, times: 1 })
    await user.rename('F', 'G')
    const failed = () => user.outbox.named('G').some(({ failure }) => failure !== undefined)
    await expect.poll(failed).toBe(true)
    expect(await account.service.list()).toHaveLength(2)
  })
  afterEach(() => user.drop())

  it.each([
    ['and is at its first name only', {}],
    ['though another has the name that it had meanwhile', { 'G/x': 'x' }],
  ])('comes back, %s', async (_, others) => {
    await user.rename('G', 'F')
    if (Object.keys(others).length > 0) await user.makeDirectory('G')
    for (const [name, content] of Object.entries(others)) await user.write(name, content)
    await user.drain()
    const expected = { 'F/x': 'x', ...others }
    expect(await user.tree()).toEqual(expected)
    const next = await account.open({}, 'next')
    expect(await next.tree()).toEqual(expected)
    expect(account.service.deletes()).toBe(1)
  })
})

it.each([true, false])(
  'what a folder was stored as, under a name that it had before, is nowhere (that was to be deleted: %s)',
  async (isTried) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ tuning: ONCE, settings: { folderRestMs: 1 } })
    const { proxy } = account.service
    await user.makeDirectory('F')
    await user.write('F/x', 'x')
    await user.drain()
    const failed = (name: string) => () =>
      user.outbox.named(name).find(({ failure }) => failure !== undefined)?.id
    const mayDelete = proxy.add({ match: { method: 'DELETE' }, fault: { answer: { status: 500 } } })
    await user.rename('F', 'G')
    await expect.poll(failed('G')).toBeDefined()
    const first = failed('G')()
    // The service gives equal content of this name the id that it had.
    proxy.add({ match: UPLOAD, fault: { loseAnswer: true }, times: 1 })
    await user.rename('G', 'F')
    await expect.poll(failed('F')).toBeDefined()
    await user.listing.refreshNow()
    mayDelete()
    if (isTried && first !== undefined) await user.drive.uploader.attemptRest(first)
    await user.rename('F', 'G')
    await user.drain()
    expect(await user.tree()).toEqual({ 'G/x': 'x' })
    const next = await account.open({}, 'next')
    expect(await next.tree()).toEqual({ 'G/x': 'x' })
  },
)
