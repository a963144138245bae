import { join } from 'node:path'
import { readFile } from 'node:fs/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, readSome, setUp } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

const A = id('a')
const B = id('b')
const MIB = 1024 * 1024
const lengthOf = (bytes: Uint8Array): number => bytes.length

describe('a cut download', () => {
  it('resumes where it was, without the reader noticing', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ cutAfter: 100_000 }, { cutAfter: 50_000 })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 100_000, 150_000])
  })

  it('is one that ends cleanly before the length it told, too', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ endAfter: 100_000 })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests).toHaveLength(2)
  })

  it('starts again from 0 where ranges are not answered, and passes over what is here', async () => {
    const { cache, service } = await setUp({ ranges: false })
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ cutAfter: 100_000 }, { cutAfter: 200_000 })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 100_000, 0])
  })

  it('fails after the tries that were set, when no try brings a byte', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(300_000))
    service.faults.push(
      { cutAfter: 100_000 },
      ...Array.from({ length: 3 }, () => ({ cutAfter: 0 })),
    )
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 300_000)).rejects.toMatchObject({ code: 'unavailable' })
    expect(service.requests).toHaveLength(4)
    expect(await readSome(reader, 0, 300_000)).toHaveLength(300_000)
  })

  it.each([
    ['length', { totalLength: 400_000, content: noiseOf(400_000, 5) }],
    ['ETag', { etag: '"two"', content: noiseOf(300_000, 5) }],
  ])('starts over from nothing when the %s changed meanwhile', async (_what, fault) => {
    const { cache, service } = await setUp({ etag: '"one"' })
    service.contents.set(A, noiseOf(300_000, 5))
    service.listed.set(A, [300_000, 400_000])
    service.faults.push({ cutAfter: 100_000, content: noiseOf(300_000, 1) }, fault, fault)
    const reader = cache.open(A)
    const all = await readSome(reader, 0, 400_000)
    expect(all.equals(fault.content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 100_000, 0])
  })

  it('starts over when bytes that came again are not what they were', async () => {
    const { cache, service } = await setUp({ ranges: false })
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ cutAfter: 100_000, content: noiseOf(300_000, 7) })
    expect((await readSome(cache.open(A), 0, 300_000)).equals(content)).toBe(true)
  })

  it('is not distrusted for a weak ETag, nor twice for strong ones', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ cutAfter: 100_000, etag: 'W/"1"' }, { cutAfter: 50_000, etag: 'W/"2"' })
    const reader = cache.open(A)
    await readSome(reader, 0, 1000)
    expect((await readAll(reader)).equals(content)).toBe(true)
    service.contents.set(B, content)
    const changing = Array.from({ length: 9 }, (_, index) => ({
      cutAfter: 50_000,
      etag: `"${index}"`,
    }))
    service.faults.push(...changing)
    expect((await readSome(cache.open(B), 0, 300_000)).equals(content)).toBe(true)
  })

  it('is never put together of two that the service has under one id and tells apart', async () => {
    const { cache, service } = await setUp({ etag: '"one"' })
    const one = noiseOf(300_000, 1)
    const other = { etag: '"two"', content: noiseOf(300_000, 2) }
    service.contents.set(A, one)
    const inTurns = [{}, other, {}, other, {}, other, {}, other, {}, other]
    service.faults.push(...inTurns.map((fault) => ({ cutAfter: 100_000, ...fault })))
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 300_000).then(lengthOf)).rejects.toMatchObject({
      code: 'corrupt',
    })
    service.faults.length = 0
    expect((await readSome(cache.open(A), 0, 300_000)).equals(one)).toBe(true)
  })

  it('is not put together of two where one meets what came of the other before', async () => {
    const { cache, service } = await setUp({ etag: '"one"' })
    const one = noiseOf(20 * MIB, 1)
    const other = { etag: '"two"', content: noiseOf(20 * MIB, 2) }
    service.contents.set(A, one)
    // The stream from the start goes on once the far seek is answered.
    const isSought = deferred()
    const beforeChunk = async (position: number): Promise<void> => {
      if (position >= MIB) await isSought.promise
    }
    service.faults.push({ cutAfter: 1000 }, other, { beforeChunk })
    const reader = cache.open(A)
    expect((await readSome(reader, 0, 2000)).equals(one.subarray(0, 2000))).toBe(true)
    service.faults.push(other)
    const seen = await readSome(reader, 10 * MIB, 1000)
    expect(seen.equals(other.content.subarray(10 * MIB, 10 * MIB + 1000))).toBe(true)
    isSought.resolve()
    await expect(readAll(reader).then(lengthOf)).rejects.toMatchObject({ code: 'corrupt' })
    expect((await readAll(cache.open(A))).equals(one)).toBe(true)
  })

  it('gives up on a service whose lengths never agree', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.listed.set(
      A,
      Array.from({ length: 20 }, (_, more) => 300_000 + more),
    )
    for (let more = 0; more < 20; more += 1) {
      service.faults.push({ cutAfter: 50_000, totalLength: 300_000 + more })
    }
    await expect(readSome(cache.open(A), 0, 300_000).then(lengthOf)).rejects.toMatchObject({
      code: 'corrupt',
    })
    expect(service.requests.length).toBeLessThan(12)
  })

  it('that is longer than it said is an error and not more content', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(300_000))
    service.faults.push(...Array.from({ length: 20 }, () => ({ totalLength: 200_000 })))
    await expect(readSome(cache.open(A), 0, 300_000).then(lengthOf)).rejects.toMatchObject({
      code: 'bad-answer',
    })
    expect(cache.isComplete(A)).toBe(false)
  })
})

describe('a far seek', () => {
  it('is fetched by range, and nothing else is', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(60 * MIB)
    service.contents.set(A, content)
    const reader = cache.open(A)
    const end = content.length
    expect((await readSome(reader, end - 1000, 2000)).equals(content.subarray(end - 1000))).toBe(
      true,
    )
    await eventually(() => {
      expect(cache.stats().downloads).toEqual([])
    })
    expect(service.requests.map(({ start, sent }) => [start, sent])).toEqual([[end - 1000, 1000]])
    reader.close()
  })

  it('learns the length first when it may be past the end, and then fetches only the end', async () => {
    const { cache, service } = await setUp({ announcesRanges: true })
    const content = noiseOf(60 * MIB)
    service.contents.set(A, content)
    service.listed.set(A, [10, content.length])
    const reader = cache.open(A)
    const start = content.length - 1000
    expect((await readSome(reader, start, 1000)).equals(content.subarray(start))).toBe(true)
    expect(service.requests.map((request) => request.start)).toEqual([0, start])
    // How far the first stream comes before it is stopped is a matter of how busy the machine is.
    expect(service.requests[0]?.sent).toBeLessThan(content.length / 2)
  })

  it('past the end is the end', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(1000))
    service.listed.set(A, [99_000_000])
    const reader = cache.open(A)
    expect(await readSome(reader, 50_000_000, 10)).toHaveLength(0)
    expect(await readAll(reader)).toHaveLength(1000)
  })

  it('waits for the stream where ranges are not answered, and asks for one only once', async () => {
    const { cache, service } = await setUp({ ranges: false, chunkBytes: MIB })
    const content = noiseOf(12 * MIB)
    service.contents.set(A, content)
    service.contents.set(B, content)
    service.closeGate(MIB)
    const first = cache.open(A)
    await readSome(first, 0, 1000)
    const far = readSome(first, 11 * MIB, 1000)
    await eventually(() => {
      expect(service.requests).toHaveLength(2)
    })
    service.openGate()
    expect((await far).equals(content.subarray(11 * MIB, 11 * MIB + 1000))).toBe(true)
    const second = cache.open(B)
    expect(await readSome(second, 11 * MIB, 1000)).toHaveLength(1000)
    expect((await readAll(second, MIB)).equals(content)).toBe(true)
    expect(service.requests.filter(({ start }) => start > 0)).toHaveLength(1)
  })

  it('opens only a few streams at once', async () => {
    const { cache, service } = await setUp({ announcesRanges: true })
    const content = noiseOf(40 * MIB)
    service.contents.set(A, content)
    service.closeGate(0)
    const reader = cache.open(A)
    const reads = [0, 8, 16, 24, 32, 39].map((at) => readSome(reader, at * MIB, 1000))
    await eventually(() => {
      expect(service.requests).toHaveLength(3)
    })
    service.openGate()
    for (const [index, at] of [0, 8, 16, 24, 32, 39].entries()) {
      expect((await reads[index])?.equals(content.subarray(at * MIB, at * MIB + 1000))).toBe(true)
    }
  })
})

describe('a reader that looks at the head of much', () => {
  it('does not fetch all of it, while one that reads on does', async () => {
    const { cache, service } = await setUp({ announcesRanges: true, chunkBytes: MIB })
    const content = noiseOf(80 * MIB)
    service.contents.set(A, content)
    const reader = cache.open(A)
    await readSome(reader, 0, 1000)
    await eventually(() => {
      expect(cache.stats().downloads).toEqual([])
    })
    expect(service.requests[0]?.sent).toBeLessThan(40 * MIB)
    expect((await readAll(reader, MIB)).equals(content)).toBe(true)
    expect(cache.isComplete(A)).toBe(true)
  })
})

describe('a restart', () => {
  it('goes on with what was written down, and fetches only the rest', async () => {
    const { cache, service, reopen } = await setUp()
    const content = noiseOf(MIB)
    service.contents.set(A, content)
    service.closeGate(500_000)
    await readSome(cache.open(A), 0, 500_000)
    await cache.close()
    service.openGate()
    const next = await reopen()
    expect(next.isComplete(A)).toBe(false)
    const reader = next.open(A)
    expect(reader.readNow(Buffer.alloc(1000), 499_000)).toBe(1000)
    expect((await readAll(reader)).equals(content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 500_000])
    await next.close()
    const last = await reopen()
    expect(last.isComplete(A)).toBe(true)
    expect(last.lengthOf(A)).toBe(MIB)
  })

  it('starts over when the bag is another one now', async () => {
    const { cache, service, reopen, dir } = await setUp({ etag: '"one"' })
    service.contents.set(A, noiseOf(MIB))
    service.closeGate(500_000)
    await readSome(cache.open(A), 0, 500_000)
    await cache.close()
    service.openGate()
    const other = noiseOf(MIB, 4)
    service.faults.push({ etag: '"two"', content: other }, { etag: '"two"', content: other })
    const next = await reopen()
    const reader = next.open(A)
    expect((await readSome(reader, 0, MIB)).equals(other)).toBe(true)
    reader.close()
    await next.close()
    expect((await readFile(join(dir, 'cache/v1/aa', A))).equals(other)).toBe(true)
  })
})
