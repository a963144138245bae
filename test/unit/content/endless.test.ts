import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { BagCache } from '../../../src/content/bag-cache.ts'
import type { BagReader } from '../../../src/content/bag-reader.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, readSome, setUp, sha256 } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

/** A reader that was told the listed length: after a second so many bytes had come, and no length. */
async function tellListed(
  { cache, service, clock }: Awaited<ReturnType<typeof setUp>>,
  listedLength: number,
  sent: number,
): Promise<BagReader> {
  service.closeGate(sent)
  const reader = cache.open(A, { listedLength })
  const length = reader.length()
  await eventually(() => {
    expect(service.requests[0]?.sent).toBe(sent)
  })
  clock.advance(1000)
  expect(await length).toBe(listedLength)
  return reader
}

const A = id('a')
const MIB = 1024 * 1024
/** What one open bag may hold beyond the limit, and what is counted already and about to be written. */
const WINDOW = MIB + 2 * MIB
const CHUNK = 64 * 1024

describe('content that does not fit', () => {
  it.each([true, false])('is read through a window (ranges: %s)', async (ranges) => {
    const { cache, service } = await setUp({ ranges, settings: { maxBytes: 4 * MIB } })
    const content = noiseOf(20 * MIB)
    service.contents.set(A, content)
    const reader = cache.open(A)
    for (let at = 0; at < content.length; at += 100_000) {
      const bytes = await readSome(reader, at, 100_000)
      expect(bytes.equals(content.subarray(at, at + 100_000))).toBe(true)
      expect(cache.stats().bytes).toBeLessThanOrEqual(4 * MIB + WINDOW + CHUNK)
    }
    expect(cache.stats().bytes).toBeLessThan(content.length)
    expect((await readSome(reader, 0, 1000)).equals(content.subarray(0, 1000))).toBe(true)
  })

  it('does not keep a download for itself while nobody reads on', async () => {
    const { cache, service, clock } = await setUp({ settings: { maxBytes: 2 * MIB } })
    const content = noiseOf(20 * MIB)
    service.contents.set(A, content)
    const reader = cache.open(A)
    await readSome(reader, 0, 1000)
    await eventually(() => {
      expect(cache.stats().bytes).toBeGreaterThanOrEqual(2 * MIB - CHUNK)
    })
    await eventually(() => {
      clock.advance(5000)
      expect(cache.stats().downloads).toEqual([])
    })
    const end = content.length
    expect((await readSome(reader, end - 10, 10)).equals(content.subarray(end - 10))).toBe(true)
  })

  it('is copied, and compared with its sum', async () => {
    const { cache, service, facts, dir } = await setUp({ settings: { maxBytes: 2 * MIB } })
    const content = noiseOf(6 * MIB)
    facts.learn(A, { length: content.length, sha256: sha256(content) })
    service.contents.set(A, noiseOf(6 * MIB, 7))
    await expect(cache.copyTo(A, join(dir, 'wrong'))).rejects.toMatchObject({ code: 'corrupt' })
    service.contents.set(A, content)
    expect(
      await cache.copyTo(A, join(dir, 'copy')).catch(() => cache.copyTo(A, join(dir, 'copy'))),
    ).toBe(content.length)
    expect((await readFile(join(dir, 'copy'))).equals(content)).toBe(true)
  })
})

describe('a body without a length', () => {
  /** 60 MiB stand for a body without an end. */
  const endless = async (maxBytes: number) => {
    const made = await setUp({ ranges: false, length: false, settings: { maxBytes } })
    made.service.contents.set(A, noiseOf(60 * MIB))
    made.service.listed.set(A, [MIB])
    return made
  }

  it('that goes on and on is an error, and the limit holds', async () => {
    const { cache } = await endless(4 * MIB)
    const reader = cache.open(A, { listedLength: MIB })
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, cache.stats().bytes)
    })
    await expect(readSome(reader, 59 * MIB, 10)).rejects.toMatchObject({ code: 'corrupt' })
    clearInterval(watch)
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThanOrEqual(4 * MIB + WINDOW + CHUNK)
    expect(cache.stats().bytes).toBe(0)
  })

  it('that may be no content is held within the limit too', async () => {
    const { cache, service } = await endless(4 * MIB)
    service.faults.push({ contentType: 'application/json', fileName: null })
    await expect(readSome(cache.open(A), 0, 10)).rejects.toMatchObject({ code: 'corrupt' })
    expect(cache.stats().bytes).toBe(0)
  })

  it('is no copy', async () => {
    const { cache, dir } = await endless(4 * MIB)
    await expect(cache.copyTo(A, join(dir, 'copy'))).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('has the listed one after a moment, and its last byte when that turned out to be true', async () => {
    const made = await setUp({ length: false })
    const { service } = made
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    const reader = await tellListed(made, 300_000, 299_000)
    expect((await readSome(reader, 0, 1000)).equals(content.subarray(0, 1000))).toBe(true)
    const all = readAll(reader, MIB)
    service.openGate()
    expect((await all).equals(content)).toBe(true)
  })

  it('is cut short for nobody who was told a listed one that is too small', async () => {
    const made = await setUp({ length: false })
    const { cache, service } = made
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.listed.set(A, [100_000])
    const reader = await tellListed(made, 100_000, 200_000)
    await readSome(reader, 0, 50_000)
    expect(reader.readNow(Buffer.alloc(50_000), 0)).toBe(50_000)
    expect(reader.readNow(Buffer.alloc(50_000), 50_000)).toBeUndefined()
    const tail = expect(readSome(reader, 50_000, 50_000)).rejects.toMatchObject({ code: 'corrupt' })
    service.openGate()
    await tail
    const again = cache.open(A, { listedLength: 100_000 })
    expect(await again.length()).toBe(300_000)
    expect((await readAll(again)).equals(content)).toBe(true)
  })
})

describe('a reader that was told too long a length', () => {
  const content = noiseOf(100_000)

  it('by the listing is given no end, and the true one when it opens the file again', async () => {
    const made = await setUp({ length: false, ranges: false })
    const { cache, service } = made
    service.contents.set(A, content)
    service.listed.set(A, [300_000])
    const reader = await tellListed(made, 300_000, 70_000)
    service.listed.set(A, [100_000])
    service.openGate()
    await expectNoEnd(cache, reader)
  })

  it('by an answer is given no end, and the true one when it opens the file again', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, content)
    service.listed.set(A, [300_000])
    service.faults.push({ totalLength: 300_000, cutAfter: 70_000 })
    const reader = cache.open(A, { listedLength: 300_000, fromStart: true })
    expect(await reader.length()).toBe(300_000)
    service.listed.set(A, [100_000])
    await expectNoEnd(cache, reader)
  })

  async function expectNoEnd(cache: BagCache, reader: BagReader): Promise<void> {
    const corrupt = { code: 'corrupt' }
    await expect(readSome(reader, 0, 200_000)).rejects.toMatchObject(corrupt)
    await expect(readSome(reader, 99_000, 2_000)).rejects.toMatchObject(corrupt)
    const again = cache.open(A, { listedLength: 100_000 })
    expect(await again.length()).toBe(100_000)
    expect((await readAll(again, MIB)).equals(content)).toBe(true)
  }
})

describe('a body that drips', () => {
  it.each(['length', 'head'] as const)(
    'keeps whoever asks for its %s a bounded time',
    async (what) => {
      const { cache, service, clock } = await setUp({ length: false })
      service.contents.set(A, noiseOf(300_000))
      service.listed.set(A, [])
      service.closeGate(100)
      const reader = cache.open(A)
      const answer = what === 'length' ? reader.length() : cache.head(A, 512)
      const ends = expect(answer).rejects.toMatchObject({ code: 'timed-out' })
      for (let waited = 0; waited < 30_000; waited += 1_000) {
        await eventually(() => {
          expect(service.requests.at(-1)?.sent).toBeGreaterThanOrEqual(100 + waited / 1_000)
        })
        service.openGate()
        service.closeGate(101 + waited / 1_000)
        clock.advance(1_000)
      }
      await ends
    },
  )
})
