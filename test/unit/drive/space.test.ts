import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import type { Account } from '../../../src/domain/record.ts'
import { Space } from '../../../src/drive/space/space.ts'

const account = (spaceLeft: number): Account => ({ uid: 'someone', capacity: 20, spaceLeft })

function spaceOf(
  getAccount: () => Promise<Account>,
  settings: { readonly account?: Account } = {},
): Space {
  return new Space(
    {
      service: { getAccount },
      intents: () => [],
      isDiskShort: () => false,
      disk: { make: () => Promise.resolve(false), noteWritten: () => undefined },
      clock: systemClock,
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
  space.outboxChanged()
  expect(await space.report()).toEqual({ capacity: 20, free: 15 })
  expect(await space.report()).toEqual({ capacity: 20, free: 15 })
  expect(asked).toBe(2)
})

it('keeps nobody waiting for a service that does not tell how full the account is', async () => {
  const space = spaceOf(() => new Promise(() => undefined), { account: account(7) })
  space.outboxChanged()
  expect(await space.report()).toEqual({ capacity: 20, free: 7 })
})

it('keeps a status waiting no longer before the service has ever told how full the account is', async () => {
  const space = spaceOf(() => new Promise(() => undefined))
  await space.catchUp()
  expect(space.lastReport()).toBeUndefined()
})
