import { expect, it } from 'vitest'
import { DriveError, type DriveErrorCode } from '../../../src/domain/errors.ts'
import type { Intent } from '../../../src/intents/intent.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { OutagePoller } from '../../../src/outbox/outage-poller.ts'
import { withBreaker } from '../../../src/service/breaker.ts'
import type { StorageService } from '../../../src/service/storage-service.ts'
import { put } from '../namespace/builders.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const account = { uid: 'u', spaceLeft: 1, capacity: 1 }

function watch(code: DriveErrorCode) {
  const clock = new ManualClock()
  const failure = { code, message: '', atMs: 0, tries: 9, waitsForUser: false }
  const heard = { asked: 0, back: 0, givenUp: 0 }
  const state: { intents: readonly Intent[]; isAway: boolean; isSilent: boolean } = {
    intents: [put(1, 'a', { failure })],
    isAway: true,
    isSilent: false,
  }
  const silence = (signal: AbortSignal | undefined): Promise<never> =>
    new Promise((_, reject) => {
      signal?.addEventListener('abort', () => {
        heard.givenUp += 1
        reject(new DriveError('interrupted', 'Given up.'))
      })
    })
  const getAccount = (options?: { readonly signal?: AbortSignal }): Promise<typeof account> => {
    heard.asked += 1
    if (state.isSilent) return silence(options?.signal)
    if (!state.isAway) return Promise.resolve(account)
    const facts = code === 'unauthorized' ? { status: 401 } : {}
    return Promise.reject(new DriveError(code, 'Away.', facts))
  }
  const onBack = (): void => {
    heard.back += 1
  }
  const behind: Pick<StorageService, 'getAccount'> = { getAccount }
  const service = withBreaker(behind as StorageService, { clock, log: silentLogger, onBack })
  let change = (): void => undefined
  const poller = new OutagePoller({
    clock,
    outbox: {
      intents: () => state.intents,
      onChange: (listener) => {
        change = listener
        return () => undefined
      },
    },
    service,
    log: silentLogger,
  })
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      clock.move(1_000)
      await settle()
    }
  }
  return {
    clock,
    heard,
    state,
    poller,
    pass,
    change: () => {
      change()
    },
  }
}

it.each(['unavailable', 'timed-out', 'unauthorized'] as const)(
  'tells within seconds when what failed as %s may be sent again, once',
  async (code) => {
    const { heard, state, pass } = watch(code)
    await pass(300)
    expect(heard.back).toBe(0)
    state.isAway = false
    await pass(10)
    expect(heard.back).toBe(1)
    await pass(100)
    expect(heard.back).toBe(1)
    expect(heard.asked).toBeLessThanOrEqual(41)
  },
)

it('begins to ask once a change has failed', async () => {
  const { heard, state, pass, change } = watch('unavailable')
  const failed = state.intents
  state.intents = []
  await pass(100)
  expect(heard.asked).toBe(0)
  state.intents = failed
  change()
  await pass(10)
  expect(heard.asked).toBe(1)
})

it('asks nothing while nothing waits for the service', async () => {
  const { clock, heard, state, pass, change } = watch('rejected')
  await pass(100)
  expect([heard.asked, clock.waiting]).toEqual([0, 0])
  state.intents = []
  change()
  await pass(100)
  expect([heard.asked, clock.waiting]).toEqual([0, 0])
})

it('ends when it is closed', async () => {
  const { clock, poller, pass, heard, change } = watch('unavailable')
  await pass(15)
  await poller.close()
  change()
  expect(clock.waiting).toBe(0)
  await pass(100)
  expect(heard.asked).toBe(1)
})

it('waits for no answer once it is closed', async () => {
  const { clock, poller, pass, heard, state } = watch('unavailable')
  state.isSilent = true
  await pass(15)
  await poller.close()
  await settle()
  expect(heard).toMatchObject({ asked: 1, givenUp: 1 })
  expect(clock.waiting).toBe(0)
})
