import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { deferred, type Deferred } from '../../../src/domain/deferred.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { isAnswered, isDone, isToLookAt, isWatched } from '../../../src/intents/rules.ts'
import { TUNING } from '../../../src/mount/build-drive.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { DriveInProcess, serviceOf } from '../../support/drive-in-process.ts'

interface Way {
  readonly away?: (user: DriveInProcess) => Promise<void>
  readonly back: (user: DriveInProcess) => Promise<void>
}

const write = (user: DriveInProcess): Promise<void> => user.write('y', 'precious')

/** What brings content back: the service gives it the id that it had. */
const WAYS: Readonly<Record<string, Way>> = {
  'a change that is undone': { away: (user) => user.write('y', 'other'), back: write },
  'a removal that is undone': { away: (user) => user.remove('y'), back: write },
  'a rename that is undone': {
    away: (user) => user.rename('y', 'z'),
    back: (user) => user.rename('z', 'y'),
  },
  'the same content': { back: write },
}

async function bringBack(user: DriveInProcess, { away, back }: Way): Promise<void> {
  await away?.(user)
  await user.drain()
  await back(user)
}

const BACK = Object.entries(WAYS)
const STORED = { y: 'precious' }
const { deletingMs } = TUNING.uploads

async function store(user: DriveInProcess): Promise<string> {
  await user.write('y', 'precious')
  await user.drain()
  const { records } = await user.listing.refreshNow()
  const record = records.find(({ name }) => name === 'y')
  if (record === undefined) throw new Error('Nothing is stored.')
  return record.bagId
}

/** A DELETE that was on its way all the time. */
async function arrive({ service, dir }: AccountInProcess, bagId: string): Promise<void> {
  const { url, token } = { url: service.local.url, token: service.token }
  const other = serviceOf({ url, token, dir, writeBack: true })
  await other.deleteBag(toBagId(bagId))
  await other.close()
}

/** Drives that wait for a late DELETE until the test says that the time is over. */
async function startPatient({ writeBack }: { readonly writeBack: boolean }): Promise<{
  readonly account: AccountInProcess
  readonly open: () => Promise<DriveInProcess>
  readonly hasWaited: Deferred
}> {
  const account = await AccountInProcess.start()
  const { proxy, token } = account.service
  const hasWaited = deferred()
  const clock: typeof systemClock = {
    ...systemClock,
    sleep: async (ms, signal) => {
      if (ms < deletingMs - 1_000) return systemClock.sleep(ms, signal)
      const end = new AbortController()
      const signals = signal === undefined ? [end.signal] : [end.signal, signal]
      const never = systemClock.sleep(1e9, AbortSignal.any(signals))
      await Promise.race([hasWaited.promise, never]).finally(() => {
        end.abort()
      })
    },
  }
  const tuning = { uploads: { ...TUNING.uploads, retryBaseMs: 20 } }
  const limits = { timeoutMs: 500, cacheBytes: 1e8 }
  const at = { url: proxy.url, token, dir: `${account.dir}/here`, writeBack }
  return { account, hasWaited, open: () => DriveInProcess.open({ ...at, clock, tuning, limits }) }
}

/** The service does not answer the DELETE of what is done away with. */
async function goAwayUnanswered(
  { service }: AccountInProcess,
  user: DriveInProcess,
  { away }: Way,
): Promise<void> {
  service.proxy.add({ match: { method: 'DELETE' }, fault: { silence: true }, times: 1 })
  // In mode through a removal fails, and goes on.
  await away?.(user).catch((error: unknown) => {
    expect(String(error)).toContain('it did not answer in time')
  })
  await user.drain().catch((error: unknown) => {
    expect(String(error)).toContain('Not sent')
  })
}

describe('a DELETE that comes late does not take what came back', () => {
  it.each(
    BACK.slice(0, 3).flatMap(([what, way]) =>
      [false, true].map((isKilled) => ({ what, way, isKilled })),
    ),
  )(
    'by $what, where it was of here and not answered (killed: $isKilled)',
    async ({ way, isKilled }) => {
      const { account, open, hasWaited } = await startPatient({ writeBack: true })
      let user = await open()
      const bagId = await store(user)
      await goAwayUnanswered(account, user, way)
      if (isKilled) {
        await user.drop()
        user = await open()
      }
      await user.drain()
      await way.back(user)
      const drained = user.drain()
      await expect.poll(() => user.outbox.intents().some(isAnswered)).toBe(true)
      await arrive(account, bagId)
      hasWaited.resolve()
      await expect(drained).rejects.toThrow('a delete of an old version took it')
      await user.drain()
      expect(await account.service.contents()).toEqual(STORED)
      await user.drop()
    },
  )

  it.each(
    BACK.flatMap(([what, way]) => [false, true].map((isKilled) => ({ what, way, isKilled }))),
  )(
    'by $what, where it was of a machine that is not known of (killed: $isKilled)',
    async ({ way, isKilled }) => {
      const account = await AccountInProcess.start()
      let user = await account.open()
      const bagId = await store(user)
      await bringBack(user, way)
      await user.drain()
      if (isKilled) await user.drop()
      await arrive(account, bagId)
      if (isKilled) user = await account.open()
      else expect(await user.read('y')).toBe('precious')
      await expect.poll(() => account.service.contents()).toEqual(STORED)
      await expect.poll(() => user.outbox.intents().some(isWatched)).toBe(false)
      expect(await user.tree()).toEqual(STORED)
    },
  )

  it('before sync returns, where a look is due, and the service gives no listing for a while', async () => {
    const account = await AccountInProcess.start()
    const { proxy } = account.service
    const user = await account.open()
    const bagId = await store(user)
    await user.write('y', 'other')
    await user.write('y', 'precious')
    await user.drain()
    const isBack = proxy.add({ match: { path: /files_list/ }, fault: { answer: { status: 500 } } })
    await arrive(account, bagId)
    const isDue = (): boolean => user.outbox.intents().some((each) => isToLookAt(each, Date.now()))
    await expect.poll(isDue, { timeout: 10_000 }).toBe(true)
    const { commands } = user.drive
    await expect(commands.sync()).rejects.toThrow('still has y is not known')
    isBack()
    await commands.sync()
    expect(await account.service.contents()).toEqual(STORED)
  })
})

interface Later {
  readonly what: string
  readonly change: (user: DriveInProcess) => Promise<void>
  readonly tree: Record<string, string>
}

const LATER: readonly Later[] = [
  { what: 'removed', change: (user) => user.remove('y'), tree: {} },
  { what: 'overwritten', change: (user) => user.write('y', 'new'), tree: { y: 'new' } },
  {
    what: 'lengthened',
    change: (user) => user.append('y', ' and new'),
    tree: { y: 'precious and new' },
  },
  { what: 'renamed', change: (user) => user.rename('y', 'z'), tree: { z: 'precious' } },
  {
    what: 'moved into a folder',
    change: (user) => user.rename('y', 'F/y'),
    tree: { 'F/y': 'precious' },
  },
  {
    what: 'replaced by another',
    change: async (user) => {
      await user.write('q', 'new')
      await user.drive.commands.sync('q')
      await user.rename('q', 'y')
    },
    tree: { y: 'new' },
  },
]

describe('what came back while a DELETE of here is not answered', () => {
  const CASES = BACK.slice(0, 3).flatMap(([back, way]) =>
    LATER.flatMap((later) =>
      [true, false].map((writeBack) => ({ back, way, writeBack, ...later })),
    ),
  )

  it.each(CASES)(
    'by $back is $what without a wait for that DELETE (back: $writeBack)',
    async ({ way, change, tree, writeBack }) => {
      const { account, hasWaited, open } = await startPatient({ writeBack })
      const user = await open()
      await user.makeDirectory('F')
      await user.write('F/x', 'x')
      const bagId = await store(user)
      await goAwayUnanswered(account, user, way)
      await user.drain()
      await way.back(user)
      const isAtRisk = (): boolean => user.outbox.named('y').some(isAnswered)
      await expect.poll(isAtRisk).toBe(true)
      await change(user)
      const expected = { 'F/x': 'x', ...tree }
      expect(await user.tree()).toEqual(expected)
      const isWaiting = (): boolean =>
        isAtRisk() && user.outbox.named('y').some(({ id }) => user.drive.uploader.isRunning(id))
      if (!('y' in tree)) await expect.poll(isWaiting).toBe(false)
      await arrive(account, bagId)
      hasWaited.resolve()
      await user.drain().catch(() => user.drain())
      const next = await account.open({}, 'next')
      expect(await next.tree()).toEqual(expected)
      await user.drop()
    },
  )
})

describe('a rename of what came back while a DELETE of here is not answered', () => {
  const headers = { 'content-type': 'application/json' }
  const NO_LISTING = {
    none: { status: 500 },
    'one that lags': { status: 200, headers, body: '[]' },
  }

  it.each(Object.entries(NO_LISTING))('needs no listing (%s)', async (_what, answer) => {
    const [, way] = BACK[0] ?? []
    if (way === undefined) throw new Error('There is no way back.')
    const { account, open, hasWaited } = await startPatient({ writeBack: false })
    const user = await open()
    await store(user)
    await goAwayUnanswered(account, user, way)
    await user.drain()
    await way.back(user)
    const isBack = account.service.proxy.add({ match: { path: /files_list/ }, fault: { answer } })
    await user.rename('y', 'z')
    const stored = await account.service.list()
    expect(stored.map(({ filename }) => filename)).toContain('z')
    isBack()
    hasWaited.resolve()
    await user.drain().catch(() => user.drain())
    expect(await account.service.contents()).toEqual({ z: 'precious' })
    await user.drop()
  })
})

describe('what came back, and is changed here while it is watched', () => {
  const CASES = BACK.flatMap(([back, way]) => LATER.map((later) => ({ back, way, ...later })))
  const isAnyWatched = (user: DriveInProcess): boolean => user.outbox.intents().some(isWatched)

  it.each(CASES)('by $back is as it was $what', async ({ way, change, tree }) => {
    const account = await AccountInProcess.start()
    const users = [await account.open({ writeBack: false }), await account.open({}, 'back')]
    for (const user of users) {
      await user.listing.refreshNow()
      await user.makeDirectory('F').catch(() => undefined)
      await user.write('F/x', 'x')
      await store(user)
      await bringBack(user, way)
      await user.drain()
      await change(user)
      await user.drain()
      await expect.poll(() => isAnyWatched(user)).toBe(false)
      await user.drain()
      const next = await account.open({}, `next ${users.indexOf(user)}`)
      const expected = { 'F/x': 'x', ...tree }
      expect(await next.tree()).toEqual(expected)
      await user.listing.refreshNow()
      expect(await user.tree()).toEqual(expected)
      for (const name of Object.keys(tree)) await user.remove(name)
      await user.drain()
    }
  })
})

describe('content that came back', () => {
  it('stays away where another machine has stored a later version since', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open()
    const bagId = await store(user)
    await user.write('y', 'other')
    await user.drain()
    await user.write('y', 'precious')
    await user.drain()
    const seen = (): boolean =>
      user.outbox.intents().some((each) => each.kind === 'put' && each.uploadedAtMs !== undefined)
    await expect.poll(seen).toBe(true)
    await account.service.upload('y', 'later')
    await arrive(account, bagId)
    await expect.poll(() => user.outbox.intents().some(isWatched)).toBe(false)
    await user.drain()
    expect(await account.service.contents()).toEqual({ y: 'later' })
    await user.listing.refreshNow()
    expect(await user.read('y')).toBe('later')
  })

  it('is stored three times more at most by a service that never lists it', async () => {
    const account = await AccountInProcess.start()
    const { proxy } = account.service
    const user = await account.open()
    await store(user)
    await user.write('y', 'other')
    await user.write('y', 'precious')
    await user.drain()
    account.service.forgetEvents()
    const headers = { 'content-type': 'application/json' }
    const answer = { status: 200, headers, body: '[]' }
    proxy.add({ match: { path: /files_list/ }, fault: { answer } })
    const isOver = (): boolean =>
      !user.outbox.intents().some((each) => !isDone(each) || isWatched(each))
    await expect.poll(() => account.service.uploads().length, { timeout: 30_000 }).toBe(3)
    await expect.poll(isOver, { timeout: 30_000 }).toBe(true)
    expect(account.service.uploads()).toEqual(['y', 'y', 'y'])
    expect(await account.service.contents()).toEqual(STORED)
  })

  it('is watched for a while, and then like any other', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open()
    const bagId = await store(user)
    await user.write('y', 'other')
    await user.write('y', 'precious')
    await user.drain()
    await expect.poll(() => user.outbox.intents().some(isWatched)).toBe(false)
    expect(user.cache.isComplete(toBagId(bagId))).toBe(true)
    await arrive(account, bagId)
    await user.listing.refreshNow()
    await expect.poll(() => user.names()).toEqual([])
    expect(await account.service.contents()).toEqual({})
  })
})
