import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import type { Account } from '../../../src/domain/record.ts'
import { Space } from '../../../src/drive/space/space.ts'

const account = (spaceLeft: number): Account => ({ uid: 'someone', capacity: 20, spaceLeft })

it('asks for the room anew when the answer under way was begun before', async () => {
  const answers = [deferred<Account>(), deferred<Account>()]
  let asked = 0
  const getAccount = (): Promise<Account> => {
    asked += 1
    return answers[asked - 1]?.promise ?? Promise.reject(new Error('It was asked too often.'))
  }
  const space = new Space(
    {
      service: { getAccount },
      intents: () => [],
      isDiskShort: () => false,
      disk: { make: () => Promise.resolve(false), noteWritten: () => undefined },
      clock: systemClock,
      log: silentLogger,
    },
    { ttlMs: 60_000 },
  )
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
