import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { Silence } from '../../../src/content/silence.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import type { DownloadLimits } from '../../../src/service/storage-service.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, FakeClock, id, readAll, readSome, setUp } from './fake-downloads.ts'
import type { Fault, Setup } from './fake-downloads.ts'

afterEach(cleanUp)

const A = id('a')
const MOST_MS = 30_000
const cut = new DriveError('unavailable', 'The connection was cut.')
const notAsked = new DriveError('timed-out', 'The service does not answer.', { notAsked: true })

describe('the silence of a stream', () => {
  it('lets a request wait for its head as long as is left, and for each byte a third of all', () => {
    const clock = new FakeClock()
    const silence = new Silence(clock, MOST_MS)
    expect(silence.limits).toEqual({ answerMs: 30_000, stallMs: 10_000 })
    silence.requestSent()
    clock.advance(4_000)
    silence.answered()
    clock.advance(12_500)
    silence.failed()
    expect(silence.limits).toEqual({ answerMs: 13_500, stallMs: 10_000 })
    silence.failed(5_000)
    expect(silence.limits).toEqual({ answerMs: 8_500, stallMs: 8_500 })
    silence.requestSent()
    clock.advance(8_500)
    silence.failed()
    expect(silence.leftMs).toBe(0)
  })

  it('is over once enough bytes for its time are here, and the disk may take as long as it likes', () => {
    const clock = new FakeClock()
    const silence = new Silence(clock, MOST_MS)
    silence.requestSent()
    clock.advance(20_000)
    silence.came(20 * 1024 - 1)
    expect(silence.leftMs).toBe(10_000)
    silence.came(1)
    clock.advance(60_000)
    silence.answered()
    expect(silence.leftMs).toBe(MOST_MS)
  })

  it('counts no more than the limit of a wait, however the clock is set', () => {
    const clock = new FakeClock()
    const silence = new Silence(clock, MOST_MS)
    silence.requestSent()
    silence.answered()
    clock.advance(3_600_000)
    silence.failed()
    expect(silence.leftMs).toBe(17_500)
    silence.requestSent()
    clock.advance(-3_600_000)
    expect(silence.leftMs).toBe(17_500)
  })
})

/** Lets time pass before each chunk, once the disk has those before. */
function pacedBy(
  { cache, clock }: Pick<Setup, 'cache' | 'clock'>,
  ms: number,
): Required<Pick<Fault, 'beforeChunk'>> {
  const isBehind = (position: number): boolean =>
    cache.stats().downloads.some(({ received }) => received < position)
  return {
    beforeChunk: async (position) => {
      while (isBehind(position)) await new Promise((resolve) => setImmediate(resolve))
      clock.advance(ms)
    },
  }
}

describe('content that comes less than 1 KiB a second', () => {
  const content = noiseOf(2_000)

  it.each([
    { title: 'a reader', answers: {} },
    { title: 'a reader, over cuts', answers: { cutAfter: 10 } },
  ])('is an error for $title', async ({ answers }) => {
    const { cache, service, clock } = await setUp({ chunkBytes: 1 })
    service.contents.set(A, content)
    const startedAt = clock.now()
    const drips = { ...answers, ...pacedBy({ cache, clock }, 1_000) }
    service.faults.push(...Array.from({ length: 1_000 }, () => drips))
    await expect(readSome(cache.open(A), 0, 2_000)).rejects.toMatchObject({
      code: 'timed-out',
      message: 'The content comes too slowly.',
    })
    expect(clock.now() - startedAt).toBeLessThan(2 * MOST_MS)
  })

  it.each([
    { title: 'at first', sound: 0 },
    { title: 'when it has to come again', sound: 2 },
  ])('is no copy: $title', async ({ sound }) => {
    const { cache, service, clock, dir } = await setUp({ chunkBytes: 1 })
    service.contents.set(A, content)
    service.listed.set(A, [5])
    const startedAt = clock.now()
    const drips = pacedBy({ cache, clock }, 1_000)
    service.faults.push(...Array.from({ length: sound }, () => undefined))
    service.faults.push(...Array.from({ length: 1_000 }, () => drips))
    const copy = join(dir, 'copy')
    await expect(cache.copyTo(A, copy)).rejects.toMatchObject({ code: 'timed-out' })
    expect(service.requests.length).toBeGreaterThan(sound)
    expect(existsSync(copy)).toBe(false)
    expect(clock.now() - startedAt).toBeLessThan(2 * MOST_MS)
  })

  it('is good enough for the first bytes, when they are here in time', async () => {
    const { cache, service, clock } = await setUp({ chunkBytes: 1 })
    service.contents.set(A, content)
    service.faults.push(pacedBy({ cache, clock }, 1_000))
    expect(await readSome(cache.open(A), 0, 10)).toEqual(Buffer.from(content).subarray(0, 10))
  })
})

describe('a reader of a service that is silent', () => {
  it('hears of it once the time is over, in however many tries it went by', async () => {
    const { cache, service, clock } = await setUp({ settings: { resumeTries: 1_000 } })
    service.contents.set(A, noiseOf(300_000))
    const limits: (DownloadLimits | undefined)[] = []
    const dies = {
      error: cut,
      before: (given: DownloadLimits | undefined) => {
        limits.push(given)
        clock.advance(6_000)
      },
    }
    service.faults.push({ cutAfter: 100_000 }, ...Array.from({ length: 10 }, () => dies))
    await expect(readSome(cache.open(A), 0, 300_000)).rejects.toMatchObject({
      code: 'timed-out',
      message: 'No byte of the content came in 30 s.',
    })
    expect(limits).toHaveLength(5)
    const last = limits.at(-1)?.answerMs ?? Infinity
    expect(last).toBeGreaterThan(0)
    expect(last).toBeLessThan(6_000)
  })

  it('counts no time in which bytes come', async () => {
    const { cache, service, clock } = await setUp({ chunkBytes: 32_000 })
    const content = noiseOf(640_000)
    service.contents.set(A, content)
    const cut = { cutAfter: 64_000, ...pacedBy({ cache, clock }, 9_000) }
    service.faults.push(...Array.from({ length: 9 }, () => cut))
    expect((await readAll(cache.open(A), 640_000)).equals(content)).toBe(true)
  })

  it.each([
    { title: 'cannot be reached', facts: { notReached: true } },
    { title: 'refuses', facts: { status: 503 } },
  ])('is told so when the service $title, however long its tries took', async ({ facts }) => {
    const { cache, service, clock } = await setUp({ settings: { resumeTries: 1_000 } })
    service.contents.set(A, noiseOf(300_000))
    const error = new DriveError('unavailable', 'Nothing answers.', facts)
    const before = (): void => {
      clock.advance(20_000)
    }
    service.faults.push(...Array.from({ length: 10 }, () => ({ error, before })))
    await expect(readSome(cache.open(A), 0, 300_000)).rejects.toBe(error)
  })

  it('is told at once what is known, unless it is in the middle', async () => {
    const { cache, service } = await setUp({ settings: { resumeTries: 1 } })
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ error: notAsked })
    await expect(readSome(cache.open(A), 0, 1)).rejects.toBe(notAsked)
    expect(service.requests).toHaveLength(1)
    const gone = new DriveError('unavailable', 'The service does not answer.', { notAsked: true })
    service.faults.push({ error: gone })
    expect(
      await readSome(cache.open(id('b')), 0, 1).catch((error: unknown) => error),
    ).toMatchObject({
      code: 'gone',
    })
    service.requests.length = 0
    const away = Array.from({ length: 5 }, () => ({ error: notAsked }))
    service.faults.push({ cutAfter: 100_000 }, ...away)
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests).toHaveLength(7)
  })

  it('does not wait for a service that asks for more time than there is', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(10))
    const busy = new DriveError('unavailable', 'Busy.', { status: 503, retryAfterMs: MOST_MS })
    service.faults.push({ error: busy })
    await expect(readSome(cache.open(A), 0, 10)).rejects.toBe(busy)
    expect(service.requests).toHaveLength(1)
  })
})
