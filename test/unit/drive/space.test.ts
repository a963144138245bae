import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { systemClock, type Clock } from '../../../src/domain/clock.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import type { Account } from '../../../src/domain/record.ts'
import { Space } from '../../../src/drive/space/space.ts'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
import { put } from '../namespace/builders.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

const account = (spaceLeft: number): Account => ({ uid: 'someone', capacity: 20, spaceLeft })

function spaceOf(
  getAccount: () => Promise<Account>,
  {
    clock = systemClock,
    intents = () => [],
    ...settings
  }: {
    readonly account?: Account
    readonly clock?: Clock
    readonly intents?: () => readonly Intent[]
  } = {},
): Space {
  return new Space(
    {
      service: { getAccount },
      intents,
      isDiskShort: () => false,
      disk: { make: () => Promise.resolve(false), noteWritten: () => undefined },
      clock,
      log: silentLogger,
    },
    { ttlMs: 60_000, ...settings },
  )
}

it('asks for the room anew when the answer under way was begun before', async () => {
  const answers = [deferred<Account>(), deferred<Account>()]
  let asked = 0
  const getAccount = (): Promise<Account> => {
    asked += 1
    return answers[asked - 1]?.promise ?? Promise.reject(new Error('It was asked too often.'))
  }
  const space = spaceOf(getAccount)
  const first = space.ask()
  const later = [space.ask(), space.ask()]
  answers[0]?.resolve(account(13))
  await first
  expect(space.freeFor(undefined)).toBe(13)
  answers[1]?.resolve(account(5))
  await Promise.all(later)
  expect(space.freeFor(undefined)).toBe(5)
  expect(asked).toBe(2)
})

it('tells how full the account is after something was stored, also when it was asked right before', async () => {
  let left = 20
  let asked = 0
  const space = spaceOf(() => {
    asked += 1
    return Promise.resolve(account(left))
  })
  expect(await space.report()).toEqual({ capacity: 20, free: 20 })
  left = 15
  // What was sent has left the outbox.
  space.outboxChanged(undefined, undefined)
  expect(await space.report()).toEqual({ capacity: 20, free: 15 })
  expect(await space.report()).toEqual({ capacity: 20, free: 15 })
  expect(asked).toBe(2)
})

it('keeps nobody waiting for a service that does not tell how full the account is', async () => {
  const space = spaceOf(() => new Promise(() => undefined), { account: account(7) })
  space.outboxChanged(undefined, undefined)
  expect(await space.report()).toEqual({ capacity: 20, free: 7 })
})

it('keeps a status waiting no longer before the service has ever told how full the account is', async () => {
  const space = spaceOf(() => new Promise(() => undefined))
  await space.catchUp()
  expect(space.lastReport()).toBeUndefined()
})

/** A put of 7 bytes, confirmed at a time. */
const stored = (confirmedAtMs: number): PutIntent =>
  put(1, 'f', {
    content: { from: 'staged', length: 7, sha256: '' },
    phase: 'confirmed',
    confirmedAtMs,
  })

it('counts what was stored and has left the outbox until the service counts it', async () => {
  const clock = new ManualClock()
  const first = deferred<Account>()
  const answers = [first.promise, Promise.resolve(account(5))]
  const space = spaceOf(() => answers.shift() ?? Promise.reject(new Error('Too often.')), {
    account: account(12),
    clock,
  })
  const asked = space.ask()
  space.outboxChanged(stored(1_000_000), undefined)
  expect(space.fits(7)).toBe(false)
  expect(space.fits(5)).toBe(true)
  // This answer was begun before, and may not count it.
  first.resolve(account(12))
  await asked
  expect(space.fits(7)).toBe(false)
  clock.move(1)
  await space.ask()
  expect(space.freeFor(undefined)).toBe(5)
})

it('counts nothing that was removed, was not stored, or is still in the outbox', () => {
  const space = spaceOf(() => new Promise(() => undefined), {
    account: account(12),
    clock: new ManualClock(),
  })
  space.outboxChanged(put(1, 'f'), undefined)
  space.outboxChanged(stored(999_999), undefined)
  space.outboxChanged(put(1, 'f'), stored(1_000_000))
  expect(space.freeFor(undefined)).toBe(12)
})

it('follows what waits in the outbox, also where it was asked before it was told', () => {
  const index = new IntentIndex()
  const given = { account: account(12), clock: new ManualClock() }
  const space = spaceOf(() => new Promise(() => undefined), {
    ...given,
    intents: () => index.intents(),
  })
  const waiting = (length: number): PutIntent =>
    put(1, 'f', { content: { from: 'staged', length, sha256: '' } })
  expect(space.freeFor(undefined)).toBe(12)
  index.set(waiting(5))
  space.outboxChanged(undefined, waiting(5))
  expect(space.freeFor(undefined)).toBe(7)
  index.set(waiting(3))
  space.outboxChanged(waiting(5), waiting(3))
  expect(space.freeFor(undefined)).toBe(9)
  index.delete(waiting(3).id)
  space.outboxChanged(waiting(3), undefined)
  expect(space.freeFor(undefined)).toBe(12)

  index.set(waiting(4))
  const asked = spaceOf(() => new Promise(() => undefined), {
    ...given,
    intents: () => index.intents(),
  })
  expect(asked.freeFor(undefined)).toBe(8)
  asked.outboxChanged(undefined, waiting(4))
  expect(asked.freeFor(undefined)).toBe(8)
})
