import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { withBreaker } from '../../../src/service/breaker.ts'
import type { CallOptions, StorageService } from '../../../src/service/storage-service.ts'

/** A service of which only the account can be asked; `answer` says what comes of it. */
function scripted(
  answer: (options: CallOptions) => Promise<void>,
  onBack: () => void = () => undefined,
) {
  let nowMs = 0
  let calls = 0
  const getAccount = async (options: CallOptions = {}) => {
    calls += 1
    await answer(options)
    return { uid: 'u', spaceLeft: 1, capacity: 1 }
  }
  const clock = { now: () => nowMs, sleep: () => Promise.resolve(), after: () => () => undefined }
  const service = withBreaker(
    // The other calls go the same way and are not needed here.
    { getAccount } as unknown as StorageService,
    { clock, log: silentLogger, onBack },
    { firstPauseMs: 100, longestPauseMs: 400 },
  )
  return {
    service,
    calls: () => calls,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

const silence = (): Promise<never> => Promise.reject(new DriveError('timed-out', 'Silence.'))

/** Callers that wait for their turn, each let go by one call of `itsTurn`. */
function turns(): { readonly turn: () => Promise<void>; readonly itsTurn: () => void } {
  const waiting: (() => void)[] = []
  return {
    turn: () => new Promise((resolve) => waiting.push(resolve)),
    itsTurn: () => waiting.shift()?.(),
  }
}

describe('a breaker', () => {
  it('lets one call find out that the service is dead, and fails the others at once', async () => {
    const { service, calls } = scripted(silence)
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    for (let each = 0; each < 5; each += 1) {
      await expect(service.getAccount()).rejects.toMatchObject({
        code: 'timed-out',
        facts: { notAsked: true },
      })
    }
    expect(calls()).toBe(1)
  })

  it('says of one that refuses connections that it is unavailable', async () => {
    const { service, calls } = scripted(() => Promise.reject(new DriveError('unavailable', 'No.')))
    for (let each = 0; each < 2; each += 1) {
      await expect(service.getAccount()).rejects.toMatchObject({ code: 'unavailable' })
    }
    expect(calls()).toBe(1)
  })

  it('asks at once when the clock was set back, and then pauses as ever', async () => {
    const { service, calls, pass } = scripted(silence)
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    pass(-3_600_000)
    for (let each = 0; each < 5; each += 1) {
      await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    }
    expect(calls()).toBe(2)
  })

  it('lets a single call through after a pause that doubles up to a limit', async () => {
    const { service, calls, pass } = scripted(silence)
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    for (const [pause, expected] of [
      [99, 1],
      [1, 2],
      [199, 2],
      [1, 3],
      [399, 3],
      [1, 4],
      [400, 5],
    ] as const) {
      pass(pause)
      await service.getAccount().catch(() => undefined)
      expect(calls()).toBe(expected)
    }
  })

  it('lets another through when one goes on for longer than the longest pause', async () => {
    let answer = silence
    const { service, calls, pass } = scripted(() => answer())
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    pass(100)
    answer = () => new Promise(() => undefined)
    const hung = service.getAccount()
    const first = (asked: Promise<unknown>) => Promise.race([asked, Promise.resolve('it goes on')])
    expect(await first(hung)).toBe('it goes on')
    pass(399)
    await expect(service.getAccount()).rejects.toMatchObject({ facts: { notAsked: true } })
    pass(1)
    await expect(Promise.race([service.getAccount(), Promise.resolve('asked')])).resolves.toBe(
      'asked',
    )
    await expect(service.getAccount()).rejects.toMatchObject({ facts: { notAsked: true } })
    expect(calls()).toBe(3)
  })

  it('lets a call through in the pause that asks for it, and its answer ends the pause', async () => {
    let answer: () => Promise<void> = silence
    const { service, calls } = scripted(() => answer())
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    for (const expected of [2, 3]) {
      const asked = service.getAccount({ isInPause: true })
      await expect(asked).rejects.not.toMatchObject({ facts: { notAsked: true } })
      await expect(service.getAccount()).rejects.toMatchObject({ facts: { notAsked: true } })
      expect(calls()).toBe(expected)
    }
    answer = () => Promise.resolve()
    await service.getAccount({ isInPause: true })
    await service.getAccount()
    expect(calls()).toBe(5)
  })

  it('is open again after the first answer, also when that is a refusal', async () => {
    let answer: () => Promise<void> = silence
    const { service, calls, pass } = scripted(() => answer())
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'timed-out' })
    pass(100)
    answer = () => Promise.reject(new DriveError('unauthorized', 'No.', { status: 401 }))
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'unauthorized' })
    answer = () => Promise.resolve()
    await service.getAccount()
    await service.getAccount()
    expect(calls()).toBe(4)
  })

  it('fails a call at once that had waited its turn while the service turned out to be dead', async () => {
    const { turn, itsTurn } = turns()
    let sent = 0
    const { service, pass } = scripted(async ({ onBegin }) => {
      await turn()
      onBegin?.()
      sent += 1
      return silence()
    })
    const [first, second, third] = [1, 2, 3].map(() => service.getAccount())
    itsTurn()
    await expect(first).rejects.toMatchObject({ code: 'timed-out' })
    itsTurn()
    await expect(second).rejects.toMatchObject({ code: 'timed-out', facts: { notAsked: true } })
    pass(100)
    itsTurn()
    await expect(third).rejects.toMatchObject({ code: 'timed-out' })
    expect(sent).toBe(2)
  })

  it('does not mind a connection that broke once the request was there', async () => {
    const lost = new DriveError('unavailable', 'Cut.', { answerLost: true })
    const { service, calls } = scripted(() => Promise.reject(lost))
    for (let each = 0; each < 3; each += 1) await expect(service.getAccount()).rejects.toBe(lost)
    expect(calls()).toBe(3)
  })

  it('tells when the service is back that was away for more than one call', async () => {
    let answer: () => Promise<void> = silence
    let backs = 0
    const { service, pass } = scripted(
      () => answer(),
      () => (backs += 1),
    )
    for (const failures of [1, 2]) {
      answer = silence
      for (let each = 0; each < failures; each += 1) {
        await service.getAccount().catch(() => undefined)
        pass(1_000)
      }
      answer = () => Promise.resolve()
      await service.getAccount()
      await service.getAccount()
      expect(backs).toBe(failures - 1)
    }
  })

  it('tells when the token is taken again', async () => {
    let answer = (): Promise<void> =>
      Promise.reject(new DriveError('unauthorized', 'No.', { status: 401 }))
    let backs = 0
    const { service } = scripted(
      () => answer(),
      () => (backs += 1),
    )
    await expect(service.getAccount()).rejects.toMatchObject({ code: 'unauthorized' })
    answer = () => Promise.resolve()
    await service.getAccount()
    await service.getAccount()
    expect(backs).toBe(1)
  })

  it('tells a caller of its turn', async () => {
    const { service } = scripted(({ onBegin }) => {
      onBegin?.()
      return Promise.resolve()
    })
    let begun = 0
    await service.getAccount({ onBegin: () => (begun += 1) })
    expect(begun).toBe(1)
  })

  it('does not mind a service that is busy but answers', async () => {
    const busy = () => Promise.reject(new DriveError('unavailable', 'Busy.', { status: 503 }))
    const { service, calls } = scripted(busy)
    for (let each = 0; each < 3; each += 1) {
      await expect(service.getAccount()).rejects.toMatchObject({ message: 'Busy.' })
    }
    expect(calls()).toBe(3)
  })
})
