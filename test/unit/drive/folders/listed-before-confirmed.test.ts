import { beforeEach, expect, it } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'

let account: AccountInProcess
let user: DriveInProcess

/** A folder F is stored, and a listing has it as F.zip before it is confirmed. */
beforeEach(async () => {
  account = await AccountInProcess.start()
  const { proxy } = account.service
  proxy.zipFolders()
  user = await account.open({ settings: { listingTtlMs: 0 } })
  await user.makeDirectory('F')
  await user.write('F/in', 'in')
  let listed: readonly string[] = []
  // The bag of an answer is looked for before the answer is believed.
  const before = async (): Promise<void> => {
    const { records } = await user.listing.refreshNow()
    listed = records.map(({ name }) => name)
  }
  proxy.add({ match: { method: 'GET', path: /download/ }, times: 1, fault: { before } })
  await user.drive.commands.sync()
  await user.drain()
  expect(listed).toEqual(['F.zip'])
})

const shown = async (): Promise<readonly string[]> =>
  (await user.drive.readDirectory(ROOT)).map(({ name, kind }) => `${name} ${kind}`)

it('a folder that a listing has as NAME.zip before it is confirmed is the folder NAME, once', async () => {
  expect(await shown()).toEqual(['F directory'])
  // The intent that told its name expires.
  await expect
    .poll(async () => [await shown(), user.outbox.intents()])
    .toEqual([['F directory'], []])
  expect(await user.tree()).toEqual({ 'F/in': 'in' })
})

it('such a folder takes the place of its old version when it is changed', async () => {
  await user.write('F/more', 'more')
  await user.remove('F/in')
  await user.drive.commands.sync()
  await user.drain()
  await user.listing.refreshNow()
  expect(await user.tree()).toEqual({ 'F/more': 'more' })
  expect(await account.service.list()).toHaveLength(1)
})
