import { beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import type { Fault } from '../../support/fault-proxy.ts'

const UPLOAD = { method: 'POST', path: /upload/ }

/** What `source` is renamed to, and what the account holds then. */
const CHANGES = [
  { to: 'moved', after: { moved: 'source', taken: 'taken' } },
  { to: 'taken', after: { taken: 'source' } },
] as const
const BEFORE = { source: 'source', taken: 'taken' }

/** Answers that say that nothing was done. */
const REFUSALS: Readonly<Record<string, Fault>> = {
  'is answered with 500': { answer: { status: 500, body: '{"detail":"Broken."}' } },
  'is answered with 507': { answer: { status: 507 } },
  'is answered with 403': { answer: { status: 403 } },
}
/** Nothing tells whether it was done. */
const DOUBTS: Readonly<Record<string, Fault>> = {
  'never answered': { silence: true },
  'answered by a gateway': { answer: { status: 504 } },
  'answered with a page': { html: true },
}

const casesOf = (faults: Readonly<Record<string, Fault>>) =>
  CHANGES.flatMap((each) => Object.entries(faults).map(([how, fault]) => ({ ...each, how, fault })))

let account: AccountInProcess
let drive: DriveInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
  for (const [name, content] of Object.entries(BEFORE)) await account.service.upload(name, content)
  drive = await account.open({
    writeBack: false,
    settings: { listingTtlMs: 200, listingLagMs: 1_000 },
    limits: { timeoutMs: 2_000, cacheBytes: 1e8 },
  })
  expect(await drive.tree()).toEqual(BEFORE)
})

async function nothingWaits(): Promise<void> {
  await expect
    .poll(() =>
      drive.drive.commands.sync().then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
}

async function retryAll(): Promise<void> {
  for (const { id, failure } of drive.outbox.intents()) {
    if (failure !== undefined) await drive.drive.uploader.retry(id)
  }
}

describe('a rename in mode through', () => {
  it('that fails leaves what another machine stores meanwhile, and what a program writes', async () => {
    const asked = deferred()
    const mayAnswer = deferred()
    const before = (): Promise<void> => {
      asked.resolve()
      return mayAnswer.promise
    }
    const fault = { before, answer: { status: 500, body: '{"detail":"Broken."}' } }
    account.service.proxy.add({ match: UPLOAD, times: 1, fault })
    const how = { writable: true, truncate: false }
    const handle = await drive.drive.open(await drive.node('source'), how)
    const renamed = drive.rename('source', 'moved')
    await asked.promise
    await drive.drive.write(handle, Buffer.from('of here'), 0)
    await account.service.upload('source', 'of another')
    await drive.listing.refreshNow()
    mayAnswer.resolve()
    await expect(renamed).rejects.toThrow()
    await drive.drive.flush(handle)
    await drive.drive.release(handle)
    await nothingWaits()
    const ids = (await account.service.list()).map(({ bag_id: id }) => id)
    const contents = await Promise.all(ids.map((id) => account.service.content(id)))
    expect(contents.map(String)).toEqual(expect.arrayContaining(['of here', 'of another', 'taken']))
  })

  it.each(casesOf(REFUSALS).filter(({ to }) => to === 'taken'))(
    'that fails leaves what moved into a folder before it gone: $how',
    async ({ fault }) => {
      await drive.makeDirectory('F')
      await drive.write('F/kept', 'kept')
      await nothingWaits()
      account.service.proxy.add({ match: UPLOAD, fault })
      await drive.rename('taken', 'F/taken')
      await expect(drive.rename('source', 'taken')).rejects.toThrow()
      const after = { source: 'source', 'F/kept': 'kept', 'F/taken': 'taken' }
      expect(await drive.tree()).toEqual(after)
      account.service.proxy.clear()
      await retryAll()
      await nothingWaits()
      expect(await drive.tree()).toEqual(after)
      const names = (await account.service.list()).map(({ filename }) => filename)
      expect(names.sort()).toEqual(['F', 'source'])
    },
  )

  it.each(casesOf(REFUSALS))(
    'that fails has changed nothing, and changes nothing later: to $to, $how',
    async ({ to, fault }) => {
      account.service.proxy.add({ match: UPLOAD, fault })
      await expect(drive.rename('source', to)).rejects.toThrow()
      expect(await drive.tree()).toEqual(BEFORE)
      account.service.proxy.clear()
      await nothingWaits()
      expect(await drive.tree()).toEqual(BEFORE)
      expect(await account.service.contents()).toEqual(BEFORE)
    },
  )

  it.each(casesOf(DOUBTS))(
    'that may have arrived succeeds, and is carried out: to $to, $how',
    async ({ to, after, fault }) => {
      account.service.proxy.add({ match: UPLOAD, fault })
      await drive.rename('source', to)
      expect(await drive.tree()).toEqual(after)
      const node = await drive.node(to)
      await expect
        .poll(async () => String(await drive.drive.extended.get(node, 'user.bagfs.state')))
        .toMatch(/^failed: .*\(will be tried again\)$/)
      account.service.proxy.clear()
      await expect.poll(() => account.service.contents().catch(String)).toEqual(after)
      await nothingWaits()
      expect(await drive.tree()).toEqual(after)
    },
  )

  it.each(CHANGES)(
    'that arrived succeeds although its answer was lost: to $to',
    async ({ to, after }) => {
      account.service.proxy.add({ match: UPLOAD, times: 1, fault: { loseAnswer: true } })
      const before = account.service.uploads().length
      await drive.rename('source', to)
      expect(await drive.tree()).toEqual(after)
      await expect.poll(() => account.service.contents().catch(String)).toEqual(after)
      await nothingWaits()
      expect(account.service.uploads()).toHaveLength(before + 1)
    },
  )

  it.each([500, 422])(
    'that fails leaves what waits under its name, and what is stored under the other (%s)',
    async (status) => {
      account.service.proxy.add({ match: UPLOAD, fault: { answer: { status } } })
      await expect(drive.write('waits', 'new')).rejects.toThrow()
      await expect(drive.rename('waits', 'taken')).rejects.toThrow()
      await drive.write('step.tmp', 'newer')
      await expect(drive.rename('step.tmp', 'taken')).rejects.toThrow()
      const left = { ...BEFORE, waits: 'new', 'step.tmp': 'newer' }
      expect(await drive.tree()).toEqual(left)
      account.service.proxy.clear()
      await retryAll()
      await nothingWaits()
      expect(await drive.tree()).toEqual(left)
      expect(await account.service.contents()).toEqual(left)
      await drive.rename('step.tmp', 'taken')
      await drive.rename('waits', 'moved')
      await nothingWaits()
      const after = { source: 'source', taken: 'newer', moved: 'new' }
      expect(await account.service.contents()).toEqual(after)
    },
  )

  it('that fails because the service is away leaves both, too', async () => {
    await account.service.proxy.down()
    await expect(drive.write('waits', 'new')).rejects.toThrow()
    await expect(drive.rename('waits', 'taken')).rejects.toThrow()
    const left = { ...BEFORE, waits: 'new' }
    expect(await drive.tree()).toEqual(left)
    await account.service.proxy.up()
    await nothingWaits()
    expect(await account.service.contents()).toEqual(left)
  })
})

it('a folder that is sent is refused the name of a full one at once', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open({ settings: { folderRestMs: 1 } })
  const isSending = deferred()
  const maySend = deferred()
  const before = async (): Promise<void> => {
    isSending.resolve()
    await maySend.promise
  }
  await user.makeDirectory('G')
  await user.write('G/y', 'y')
  await user.drain()
  account.service.proxy.add({ match: UPLOAD, fault: { before } })
  await user.makeDirectory('F')
  await user.write('F/x', 'x')
  await isSending.promise
  await expect(user.rename('F', 'G')).rejects.toMatchObject({ code: 'not-empty' })
  maySend.resolve()
  await user.drain()
  expect(await user.tree()).toEqual({ 'F/x': 'x', 'G/y': 'y' })
})
