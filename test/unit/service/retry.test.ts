import { describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/domain/clock.ts'
import {
  DriveError,
  type DriveErrorCode,
  type DriveErrorFacts,
} from '../../../src/domain/errors.ts'
import { parseRetryAfter, withRetry, type Repeatable } from '../../../src/service/retry.ts'
import { failureOf } from './harness.ts'

function waitingClock(): Clock & { readonly waits: number[] } {
  const waits: number[] = []
  return {
    waits,
    now: () => 0,
    after: () => () => undefined,
    sleep: (ms, signal) => {
      waits.push(ms)
      return signal?.aborted === true ? Promise.reject(signal.reason as Error) : Promise.resolve()
    },
  }
}

interface Run {
  readonly tries: number
  readonly waits: readonly number[]
}

interface Trial {
  readonly facts?: DriveErrorFacts
  readonly repeatable?: Repeatable
  readonly random?: () => number
}

async function run(
  code: DriveErrorCode,
  { facts = {}, repeatable = 'always', random = () => 0.5 }: Trial = {},
): Promise<Run> {
  const clock = waitingClock()
  let tries = 0
  await failureOf(
    withRetry(
      { clock, random, onWait: () => undefined },
      { retries: 4, baseMs: 200, maxMs: 1000 },
      { repeatable, signal: new AbortController().signal },
      () => {
        tries += 1
        return Promise.reject(new DriveError(code, 'No.', facts))
      },
    ),
  )
  return { tries, waits: clock.waits }
}

describe('repeating a call', () => {
  it('waits twice as long each time, with full jitter, up to the longest wait', async () => {
    expect(await run('unavailable', { random: () => 1 })).toEqual({
      tries: 5,
      waits: [200, 400, 800, 1000],
    })
    expect((await run('unavailable', { random: () => 0 })).waits).toEqual([0, 0, 0, 0])
  })

  it('waits at least as long as the service asks for', async () => {
    const { waits } = await run('rate-limited', { facts: { retryAfterMs: 700 } })
    expect(waits).toEqual([800, 900, 1000, 1000])
  })

  it('leaves a longer wait to the caller', async () => {
    expect((await run('rate-limited', { facts: { retryAfterMs: 1001 } })).tries).toBe(1)
  })

  it.each([
    'bad-request',
    'unauthorized',
    'forbidden',
    'gone',
    'too-large',
    'rejected',
    'no-space',
    'bad-answer',
    'interrupted',
    'timed-out',
    'local-io',
  ] as const)('never repeats %s', async (code) => {
    expect((await run(code)).tries).toBe(1)
  })

  it('repeats what must not be done twice only while it is certain that it was not done', async () => {
    const repeatable = 'until-done'
    expect((await run('unavailable', { repeatable })).tries).toBe(5)
    expect((await run('unavailable', { repeatable, facts: { answerLost: true } })).tries).toBe(1)
    expect((await run('server-error', { repeatable })).tries).toBe(1)
    expect((await run('server-error')).tries).toBe(5)
    expect((await run('unavailable', { facts: { answerLost: true } })).tries).toBe(5)
  })

  it('ends the wait when the signal is aborted', async () => {
    const controller = new AbortController()
    const reason = new DriveError('interrupted', 'Enough.')
    const promise = withRetry(
      {
        clock: waitingClock(),
        random: Math.random,
        onWait: () => {
          controller.abort(reason)
        },
      },
      { retries: 4, baseMs: 1, maxMs: 1 },
      { repeatable: 'always', signal: controller.signal },
      () => Promise.reject(new DriveError('unavailable', 'No.')),
    )
    expect(await failureOf(promise)).toBe(reason)
  })

  it('passes on at once what is no DriveError', async () => {
    const bug = new TypeError('bug')
    const promise = withRetry(
      { clock: waitingClock(), random: Math.random, onWait: () => undefined },
      { retries: 4, baseMs: 1, maxMs: 1 },
      { repeatable: 'always', signal: new AbortController().signal },
      () => Promise.reject(bug),
    )
    await expect(promise).rejects.toBe(bug)
  })
})

describe('Retry-After', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')

  it('is seconds or a date', () => {
    expect(parseRetryAfter('3', now)).toBe(3000)
    expect(parseRetryAfter('Thu, 01 Jan 2026 00:00:05 GMT', now)).toBe(5000)
  })

  it('is never negative, never more than an hour, and nothing when it makes no sense', () => {
    expect(parseRetryAfter('Wed, 31 Dec 2025 00:00:00 GMT', now)).toBe(0)
    expect(parseRetryAfter('99999999', now)).toBe(3_600_000)
    expect(parseRetryAfter('soon', now)).toBeUndefined()
    expect(parseRetryAfter(undefined, now)).toBeUndefined()
  })
})
