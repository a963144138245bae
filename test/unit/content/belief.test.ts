import { readdirSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, readSome, setUp, sha256 } from './fake-downloads.ts'
import type { BagReader } from '../../../src/content/bag-reader.ts'
import type { Fault, Setup } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

const A = id('a')
const SIZE = 300_000
const ERROR = Buffer.from(JSON.stringify({ detail: 'Storage is not ready.' }))
const JSON_TYPE: Fault = { contentType: 'application/json', fileName: null }
const failures = (fault: Fault, count = 9): Fault[] => new Array<Fault>(count).fill(fault)

describe('a body that is not as long as the listing says', () => {
  it('is believed when it comes a second time, and then for ever', async () => {
    const { cache, service, facts } = await setUp()
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.listed.set(A, [SIZE + 5, 10])
    const reader = cache.open(A)
    expect(await reader.length()).toBe(SIZE)
    expect((await readAll(reader)).equals(content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 0])
    expect(facts.get(A)).toEqual({ length: SIZE, isCertain: false })
  })

  it('is not believed when the next is another, and nobody is given any of it', async () => {
    const { cache, service, facts, dir } = await setUp({ announcesRanges: true })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.faults.push({ content: ERROR }, { content: Buffer.from(ERROR).reverse() })
    const target = join(dir, 'copy')
    expect(await cache.copyTo(A, target)).toBe(SIZE)
    expect((await readFile(target)).equals(content)).toBe(true)
    expect(facts.get(A)).toEqual({ length: SIZE, isCertain: true })
  })

  it('is an error, and no copy, as long as no two are the same', async () => {
    const { cache, service, facts, dir } = await setUp()
    service.contents.set(A, noiseOf(SIZE))
    for (let each = 0; each < 9; each += 1) service.faults.push({ content: noiseOf(50, each) })
    const target = join(dir, 'copy')
    await expect(cache.copyTo(A, target)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(stat(target)).rejects.toMatchObject({ code: 'ENOENT' })
    expect(cache.isComplete(A)).toBe(false)
    expect(facts.get(A)).toBeUndefined()
  })

  it('leaves nothing behind when the next has the length that is known, however large its pieces are', async () => {
    const { cache, service, facts, log } = await setUp({ chunkBytes: SIZE })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.faults.push({ content: noiseOf(SIZE - 10, 7) })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 0])
    expect(log.lines.filter(({ level }) => level === 'warn')).toEqual([])
    expect(facts.get(A)).toEqual({ length: SIZE, isCertain: true })
  })

  it('is never believed when it was written here', async () => {
    const { cache, service, facts } = await setUp()
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    facts.learn(A, { length: SIZE, sha256: sha256(content) })
    service.listed.set(A, [50])
    service.faults.push(...failures({ content: noiseOf(50) }, 4))
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 10)).rejects.toMatchObject({ code: 'bad-answer' })
    expect((await readAll(reader)).equals(content)).toBe(true)
  })

  it('tells a probe what it is, and nothing of it is remembered', async () => {
    const { cache, service, facts, reopen, dir } = await setUp({ chunkBytes: 10 })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    for (const fault of [{ content: ERROR }, { content: ERROR, length: false } as const]) {
      service.faults.push(fault)
      const head = await cache.head(A, 512)
      expect(Buffer.from(head.bytes)).toEqual(ERROR)
      expect(head.isSure).toBe(false)
      await eventually(() => {
        expect(cache.stats()).toMatchObject({ bags: 0, downloads: [] })
      })
    }
    expect(service.requests).toHaveLength(2)
    expect(facts.get(A)).toBeUndefined()
    await cache.close()
    expect(readdirSync(join(dir, 'cache', 'v1', 'aa'))).toEqual([])
    const head = await (await reopen()).head(A, 512)
    expect(head.isSure).toBe(true)
    expect(head.bytes).toEqual(content.subarray(0, 512))
  })

  it('is asked for again by a probe that must be sure', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(SIZE))
    service.faults.push({ content: ERROR })
    const head = await cache.head(A, 512, { mustBeSure: true })
    expect(head).toMatchObject({ isSure: true, bytes: noiseOf(512) })
  })
})

describe('a copy of content whose length nothing else tells', () => {
  const HEAD = 64 * 1024
  /** As `noiseOf(SIZE)`, and other bytes at the end. */
  const other = Buffer.concat([noiseOf(SIZE).subarray(0, SIZE - 10), Buffer.alloc(10)])

  it('is made when all of it comes twice the same, whether it is cached or not', async () => {
    const { cache, service, dir } = await setUp()
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.listed.set(A, [SIZE + 5])
    for (const name of ['first', 'second']) {
      expect(await cache.copyTo(A, join(dir, name))).toBe(SIZE)
      expect((await readFile(join(dir, name))).equals(content)).toBe(true)
    }
    // The head is compared before it is read, and all of it before the first copy is made.
    expect(service.requests.map(({ start }) => start)).toEqual([0, 0, 0])
  })

  it('is not made when only its beginning comes again, and nothing of it stays', async () => {
    expect(other.subarray(0, HEAD).equals(noiseOf(HEAD))).toBe(true)
    for (const isCached of [true, false]) {
      const { cache, service, dir } = await setUp()
      service.contents.set(A, other)
      service.listed.set(A, [SIZE + 5])
      const reader = cache.open(A)
      if (isCached) await readAll(reader)
      reader.close()
      const target = join(dir, 'copy')
      if (isCached) service.contents.set(A, noiseOf(SIZE))
      else service.faults.push({}, {}, { content: noiseOf(SIZE) })
      await expect(cache.copyTo(A, target)).rejects.toMatchObject({ code: 'corrupt' })
      await expect(stat(target)).rejects.toMatchObject({ code: 'ENOENT' })
      await eventually(() => {
        expect(cache.isComplete(A)).toBe(false)
      })
      service.contents.set(A, noiseOf(SIZE))
      expect(await cache.copyTo(A, target)).toBe(SIZE)
      expect((await readFile(target)).equals(noiseOf(SIZE))).toBe(true)
    }
  })

  it.each([
    ['longer', { content: noiseOf(SIZE + 1) }],
    ['longer, and tells no length', { content: noiseOf(SIZE + 1), length: false }],
    ['shorter', { content: noiseOf(SIZE - 1) }],
    ['shorter, and tells no length', { endAfter: SIZE - 1, length: false }],
    ['cut', { cutAfter: 100 }],
  ] as const)('is not made when it comes again and is %s', async (_what, fault) => {
    const { cache, service, dir } = await setUp()
    service.contents.set(A, noiseOf(SIZE))
    service.listed.set(A, [])
    service.faults.push({}, {}, fault)
    const target = join(dir, 'copy')
    await expect(cache.copyTo(A, target)).rejects.toMatchObject({ name: 'DriveError' })
    await expect(stat(target)).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

describe('an empty body', () => {
  it.each(['told', 'not told'])(
    'is no content where more than 1 KiB is listed, however often it comes (length: %s)',
    async (isTold) => {
      const { cache, service, facts } = await setUp()
      const content = noiseOf(SIZE)
      service.contents.set(A, content)
      service.listed.set(A, [1025])
      const empty: Fault = {
        content: Buffer.alloc(0),
        ...(isTold === 'told' ? {} : { length: false }),
      }
      service.faults.push(...failures(empty, 4))
      const reader = cache.open(A)
      await expect(readSome(reader, 0, 10)).rejects.toMatchObject({ code: 'bad-answer' })
      expect(facts.get(A)).toBeUndefined()
      expect((await readAll(reader)).equals(content)).toBe(true)
    },
  )

  it('is content when it comes twice where less is listed', async () => {
    const { cache, service, facts } = await setUp()
    service.contents.set(A, Buffer.alloc(0))
    service.listed.set(A, [1024])
    expect(await cache.open(A).length()).toBe(0)
    expect(facts.get(A)).toEqual({ length: 0, isCertain: false })
  })
})

describe('an answer of a type that errors have', () => {
  it.each([
    ['JSON', JSON_TYPE],
    ['JSON without a length', { ...JSON_TYPE, length: false }],
    ['a page', { ...JSON_TYPE, contentType: 'text/html; charset=utf-8' }],
    ['a problem', { ...JSON_TYPE, contentType: 'application/problem+json' }],
    ['JSON with a file name', { contentType: 'application/json' }],
    ['a page with a file name', { contentType: 'text/html' }],
  ] as const)('%s, is no content, however often it comes', async (_what, type) => {
    const { cache, service, facts } = await setUp()
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.faults.push(...failures({ ...type, content: ERROR }, 4))
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 10)).rejects.toMatchObject({ code: 'bad-answer' })
    expect(service.requests).toHaveLength(4)
    expect(facts.get(A)).toBeUndefined()
    expect((await readAll(reader)).equals(content)).toBe(true)
  })

  it('is content when it is as long as listed', async () => {
    for (const length of [undefined, false] as const) {
      const { cache, service } = await setUp()
      const content = noiseOf(SIZE)
      service.contents.set(A, content)
      service.faults.push({ ...JSON_TYPE, ...(length === false && { length }) })
      expect((await readAll(cache.open(A))).equals(content)).toBe(true)
      expect(service.requests).toHaveLength(1)
    }
  })

  it('is given to nobody before its length is known', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.closeGate(100_000)
    service.faults.push({ ...JSON_TYPE, length: false })
    const reader = cache.open(A)
    const all = readAll(reader)
    await eventually(() => {
      expect(service.requests[0]?.sent).toBe(100_000)
    })
    expect(reader.readNow(Buffer.alloc(10), 0)).toBeUndefined()
    service.openGate()
    expect((await all).equals(content)).toBe(true)
  })

  it('does not mix with content that is here', async () => {
    const { cache, service } = await setUp({ ranges: false })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.faults.push(
      { cutAfter: 100_000 },
      ...failures({ ...JSON_TYPE, length: false, content: ERROR }, 2),
    )
    const all = await readAll(cache.open(A), 1_000_000)
    expect(all.equals(content)).toBe(true)
  })
})

describe('a body without a length that ends before the listed one', () => {
  it.each([true, false])('goes on where it ended (ranges: %s)', async (ranges) => {
    const { cache, service, facts } = await setUp({ ranges, length: false })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.faults.push({ endAfter: 100_000 })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests[1]?.start).toBe(100_000 - 64 * 1024)
    expect(facts.get(A)).toEqual({ length: SIZE, isCertain: true })
  })

  it('is not joined to what comes next, when that does not fit', async () => {
    const { cache, service } = await setUp({ ranges: true })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.faults.push({ content: noiseOf(100_000, 9), length: false })
    expect((await readSome(cache.open(A), 0, SIZE)).equals(content)).toBe(true)
  })

  it.each([true, false])('is whole when it ends there again (ranges: %s)', async (ranges) => {
    const { cache, service, facts } = await setUp({ ranges, length: false })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.listed.set(A, [SIZE + 1])
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(facts.get(A)).toEqual({ length: SIZE, isCertain: false })
  })

  it('is not kept for the next process', async () => {
    const { cache, service, reopen } = await setUp({ length: false })
    service.contents.set(A, noiseOf(SIZE))
    service.closeGate(100_000)
    await readSome(cache.open(A), 0, 100_000)
    await cache.close()
    expect((await reopen()).stats()).toMatchObject({ bytes: 0, bags: 0 })
  })
})

describe('a body that ends with its connection, before the listed end', () => {
  it.each([true, false])('is never whole, and nothing of it stays (ranges: %s)', async (ranges) => {
    const { cache, service, facts, dir } = await setUp({ ranges })
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    const cut = { content: content.subarray(0, 100_000), end: false } as const
    service.faults.push(...failures(cut, 4))
    const reader = cache.open(A)
    await expect(readAll(reader)).rejects.toMatchObject({ code: 'unavailable' })
    reader.close()
    service.faults.splice(0, 9, ...failures(cut, 4))
    const target = join(dir, 'copy')
    await expect(cache.copyTo(A, target)).rejects.toMatchObject({ code: 'unavailable' })
    expect(facts.get(A)).toBeUndefined()
    service.faults.splice(0)
    expect(await cache.copyTo(A, target)).toBe(SIZE)
    expect((await readFile(target)).equals(content)).toBe(true)
  })

  it('is whole when it ends there twice, and the listing tells of nothing longer', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(SIZE)
    service.contents.set(A, content)
    service.listed.set(A, [SIZE - 1])
    service.faults.push(...failures({ end: false }, 2))
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
  })
})

describe('what takes the place of content that has not the listed size', () => {
  const content = noiseOf(SIZE)
  const wrongAt = (position: number): Buffer => {
    const wrong = Buffer.from(content)
    wrong.writeUInt8(wrong.readUInt8(position) ^ 1, position)
    return wrong
  }
  /** A reader that has the two ends of the content, and what is listed is wrong. */
  const readEnds = async (
    { cache, service }: Pick<Setup, 'cache' | 'service'>,
    bytes: Uint8Array,
  ): Promise<BagReader> => {
    service.contents.set(A, bytes)
    service.listed.set(A, [SIZE + 5])
    const reader = cache.open(A)
    service.closeGate(200_000)
    await readSome(reader, 0, 10)
    await eventually(() => {
      expect(service.requests.at(-1)?.sent).toBe(200_000)
    })
    return reader
  }

  it.each([
    ['that is here', 100_000],
    ['that is not here yet', 250_000],
  ])('is confirmed by all of it: not when a byte %s comes another time', async (_what, at) => {
    const setup = await setUp({ chunkBytes: 1000 })
    const reader = await readEnds(setup, wrongAt(at))
    const { service, cache } = setup
    // The download that is under way ends, and the next brings what is stored.
    service.openGate()
    await readAll(reader)
    service.contents.set(A, content)
    await expect(cache.confirm(reader)).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('is confirmed when all of it comes twice the same, of which little was here', async () => {
    const setup = await setUp({ chunkBytes: 1000 })
    const reader = await readEnds(setup, content)
    setup.service.openGate()
    await setup.cache.confirm(reader)
    expect(setup.facts.get(A)).toEqual({ length: SIZE, isCertain: true })
  })

  it('is confirmed for no reader that has bytes of other content that came before', async () => {
    const { cache, service, log } = await setUp({ etag: '"one"' })
    service.contents.set(A, content)
    service.faults.push({ cutAfter: 100_000 }, { etag: '"two"' })
    const reader = cache.open(A)
    await readSome(reader, 0, 10)
    await eventually(() => {
      expect(log.lines.map(({ message }) => message).join()).toContain('starting over')
    })
    const later = cache.open(A)
    await readAll(later)
    await cache.confirm(later)
    await expect(cache.confirm(reader)).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('is compared with the sum of what was written here, where only parts of it are here', async () => {
    const { cache, service, facts } = await setUp({ chunkBytes: 1000 })
    facts.learn(A, { length: SIZE, sha256: sha256(content) })
    service.listed.set(A, [50])
    service.contents.set(A, wrongAt(250_000))
    service.closeGate(200_000)
    const reader = cache.open(A)
    await readSome(reader, 0, 10)
    service.openGate()
    await expect(cache.confirm(reader)).rejects.toMatchObject({ code: 'corrupt' })
    service.contents.set(A, content)
    const again = cache.open(A)
    await readAll(again)
    await cache.confirm(again)
  })
})
