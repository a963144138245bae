import { readdirSync, statSync } from 'node:fs'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { fileNameOf, toBagId } from '../../../src/domain/ids.ts'
import { ReadDispatcher } from '../../../src/content/read-dispatcher.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, makeDir, readAll, readSome, setUp, sha256 } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

const A = id('a')
const B = id('b')
const MIB = 1024 * 1024

const openFiles = (): number => readdirSync('/proc/self/fd').length
const completePath = (dir: string, bag = A): string =>
  join(dir, 'cache', 'v1', bag.slice(0, 2), bag)

describe('reading', () => {
  it('gives the bytes of a bag that is not here yet, and has it complete afterwards', async () => {
    const { cache, service, dir, facts } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    const reader = cache.open(A)
    expect(service.requests).toEqual([])
    expect(reader.readNow(Buffer.alloc(10), 0)).toBeUndefined()
    expect((await readAll(reader)).equals(content)).toBe(true)
    await eventually(() => {
      expect(cache.isComplete(A)).toBe(true)
    })
    expect(facts.get(A)).toEqual({ length: 300_000, isCertain: true })
    reader.close()
    await cache.close()
    expect((await readFile(completePath(dir))).equals(content)).toBe(true)
    expect(await readdir(join(dir, 'cache', 'v1', 'aa'))).toEqual([A])
  })

  it('returns as soon as its bytes are here, long before the rest', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(MIB)
    service.contents.set(A, content)
    service.closeGate(100_000)
    const reader = cache.open(A)
    expect((await readSome(reader, 50_000, 50_000)).equals(content.subarray(50_000, 100_000))).toBe(
      true,
    )
    expect(reader.readNow(Buffer.alloc(1000), 99_000)).toBe(1000)
    expect(reader.readNow(Buffer.alloc(1001), 99_000)).toBeUndefined()
    expect(cache.isComplete(A)).toBe(false)
    expect(await reader.length()).toBe(MIB)
    reader.close()
  })

  it('gives fewer bytes only at the end, and none past it', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(1000)
    service.contents.set(A, content)
    const reader = cache.open(A)
    expect(await readSome(reader, 990, 100)).toHaveLength(10)
    expect(await readSome(reader, 1000, 100)).toHaveLength(0)
    expect(await readSome(reader, 5000, 100)).toHaveLength(0)
    expect(reader.readNow(Buffer.alloc(100), 990)).toBe(10)
    expect(await reader.read(Buffer.alloc(0), 0)).toBe(0)
  })

  /** Complete content on a disk of which each read takes so long. */
  const onDisk = async (tookMs: number) => {
    let nowMs = 0
    const readDispatcher = new ReadDispatcher(() => (nowMs += tookMs))
    const { cache, service } = await setUp({ readDispatcher })
    const content = noiseOf(1000)
    service.contents.set(A, content)
    const reader = cache.open(A)
    await readAll(reader)
    await eventually(() => {
      expect(cache.isComplete(A)).toBe(true)
    })
    return { reader, content, now: () => reader.readNow(Buffer.alloc(100), 0) }
  }

  it('tells how many reads it answered, and how many waited for the service', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(300_000))
    const reader = cache.open(A)
    expect(cache.stats()).toMatchObject({ hits: 0, misses: 0 })
    await readAll(reader)
    await eventually(() => {
      expect(cache.isComplete(A)).toBe(true)
    })
    const { hits, misses } = cache.stats()
    expect(misses).toBeGreaterThan(0)
    expect(reader.readNow(Buffer.alloc(10), 0)).toBe(10)
    expect(await readSome(reader, 0, 10)).toHaveLength(10)
    expect(cache.stats()).toMatchObject({ hits: hits + 2, misses })
    await cache.head(A, 10)
    expect(cache.stats()).toMatchObject({ hits: hits + 2, misses })
    reader.close()
  })

  it('reads complete content at once, until the disk has shown that it takes long', async () => {
    const { reader, content, now } = await onDisk(8)
    expect(now()).toBe(100)
    expect(now()).toBeUndefined()
    expect(await readSome(reader, 900, 200)).toEqual(Buffer.from(content.subarray(900)))
  })

  it('does not read at once from the disk while others are reading', async () => {
    const { reader, content, now } = await onDisk(0.08)
    expect(now()).toBe(100)
    expect(now()).toBe(100)
    const other = readSome(reader, 0, 1000)
    expect(now()).toBeUndefined()
    expect(await other).toEqual(Buffer.from(content))
    expect(now()).toBe(100)
  })

  it('reads an empty bag', async () => {
    const { cache, service, dir } = await setUp()
    service.contents.set(A, new Uint8Array(0))
    const reader = cache.open(A)
    expect(await reader.length()).toBe(0)
    expect(await readAll(reader)).toHaveLength(0)
    expect(cache.isComplete(A)).toBe(true)
    reader.close()
    await cache.close()
    expect((await stat(completePath(dir))).size).toBe(0)
  })

  it('takes a bag whose id is not 64 hex digits', async () => {
    const { cache, service, dir } = await setUp()
    const odd = toBagId('../../odd id')
    service.contents.set(odd, noiseOf(10))
    const reader = cache.open(odd)
    expect(await readAll(reader)).toHaveLength(10)
    reader.close()
    await cache.close()
    const key = fileNameOf(odd)
    expect((await stat(join(dir, 'cache', 'v1', key.slice(0, 2), key))).size).toBe(10)
  })

  it('makes one download for any number of readers', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(2 * MIB)
    service.contents.set(A, content)
    const readers = Array.from({ length: 8 }, () => cache.open(A))
    const all = await Promise.all(readers.map((reader) => readAll(reader)))
    expect(all.every((bytes) => bytes.equals(content))).toBe(true)
    expect(service.requests).toHaveLength(1)
    for (const reader of readers) reader.close()
  })

  it('knows the length when the head has none, once all is here', async () => {
    const { cache, service } = await setUp({ length: false })
    service.contents.set(A, noiseOf(200_000))
    service.closeGate(100_000)
    const reader = cache.open(A)
    const length = reader.length()
    await readSome(reader, 0, 1000)
    expect(cache.lengthOf(A)).toBeUndefined()
    service.openGate()
    expect(await length).toBe(200_000)
    await eventually(() => {
      expect(cache.isComplete(A)).toBe(true)
    })
  })

  it('tells a known length without asking the service', async () => {
    const { cache, service, facts } = await setUp()
    facts.learn(A, { length: 77 })
    const reader = cache.open(A)
    expect(await reader.length()).toBe(77)
    expect(cache.lengthOf(A)).toBe(77)
    expect(service.requests).toEqual([])
  })

  it('opens no file for a reader of nothing, and closes every file that it opened', async () => {
    const { cache, service } = await setUp()
    for (const digit of 'abcdef') service.contents.set(id(digit), noiseOf(70_000))
    const before = openFiles()
    const readers = ['a', 'b', 'c', 'd', 'e', 'f'].map((digit) => cache.open(id(digit)))
    expect(openFiles()).toBe(before)
    await Promise.all(readers.map((reader) => readAll(reader)))
    expect(openFiles()).toBeGreaterThan(before)
    for (const reader of readers) {
      reader.close()
      reader.close()
    }
    await eventually(() => {
      expect(openFiles()).toBe(before)
    })
  })

  it('refuses to read after close', async () => {
    const { cache } = await setUp()
    const reader = cache.open(A)
    reader.close()
    await expect(reader.read(Buffer.alloc(1), 0)).rejects.toMatchObject({ code: 'bad-handle' })
    expect(() => reader.readNow(Buffer.alloc(1), 0)).toThrow(DriveError)
    await cache.close()
    expect(() => cache.open(A)).toThrow(DriveError)
  })

  it('lets an interrupted reader go, and the others on', async () => {
    const { cache, service } = await setUp()
    const content = noiseOf(200_000)
    service.contents.set(A, content)
    service.closeGate(1000)
    const reader = cache.open(A)
    const abort = new AbortController()
    const interrupted = reader.read(Buffer.alloc(5000), 0, abort.signal)
    const patient = readSome(reader, 0, 5000)
    abort.abort()
    await expect(interrupted).rejects.toMatchObject({ code: 'interrupted' })
    service.openGate()
    expect((await patient).equals(content.subarray(0, 5000))).toBe(true)
    await readAll(reader)
    await expect(reader.read(Buffer.alloc(9), 199_000, abort.signal)).resolves.toBe(9)
  })

  it('keeps private files, marked as a cache', async () => {
    const { cache, service, dir } = await setUp()
    service.contents.set(A, noiseOf(50))
    const reader = cache.open(A)
    await readAll(reader)
    reader.close()
    await cache.close()
    for (const path of ['cache', 'cache/v1', 'cache/v1/aa']) {
      expect(statSync(join(dir, path)).mode & 0o777).toBe(0o700)
    }
    expect(statSync(completePath(dir)).mode & 0o777).toBe(0o600)
    const tag = await readFile(join(dir, 'cache', 'CACHEDIR.TAG'), 'utf8')
    expect(tag.startsWith('Signature: 8a477f597d28d172789f06886806bc55')).toBe(true)
  })
})

describe('errors', () => {
  it('reach every reader that waits, and a later read tries again', async () => {
    const { cache, service } = await setUp()
    const readers = [cache.open(A), cache.open(A), cache.open(A)]
    const reads = readers.map((reader) => readSome(reader, 0, 10))
    const lengths = readers.map((reader) => reader.length())
    const outcomes = await Promise.allSettled([...reads, ...lengths])
    expect(outcomes.map((outcome) => outcome.status)).toEqual(new Array(6).fill('rejected'))
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ reason: { code: 'gone' } })
    }
    expect(service.requests).toHaveLength(1)
    service.contents.set(A, noiseOf(10))
    expect(await readSome(readers[0] ?? cache.open(A), 0, 10)).toHaveLength(10)
  })

  it('of a service that stays away come after the tries that were set', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(10))
    const away = new DriveError('unavailable', 'Away.')
    service.faults.push(...Array.from({ length: 4 }, () => ({ error: away })))
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 10)).rejects.toBe(away)
    expect(service.requests).toHaveLength(4)
    expect(await readSome(reader, 0, 10)).toHaveLength(10)
  })
})

describe('after the cache was closed', () => {
  it('whoever still reads hears of it at once, and the service is not asked', async () => {
    const { cache, service } = await setUp()
    service.contents.set(A, noiseOf(300_000))
    service.closeGate(100_000)
    const reader = cache.open(A)
    const waiting = expect(readSome(reader, 200_000, 10)).rejects.toMatchObject({
      code: 'interrupted',
    })
    await readSome(reader, 0, 1_000)
    await cache.close()
    await waiting
    const asked = service.requests.length
    await expect(readSome(reader, 200_000, 10)).rejects.toMatchObject({ code: 'interrupted' })
    expect(service.requests).toHaveLength(asked)
    reader.close()
  })
})

describe('leaving early', () => {
  it('stops the download after the grace, and keeps the bytes so far', async () => {
    const { cache, service, clock } = await setUp()
    const content = noiseOf(MIB)
    service.contents.set(A, content)
    service.closeGate(500_000)
    const reader = cache.open(A)
    await readSome(reader, 0, 500_000)
    reader.close()
    clock.advance(4999)
    expect(cache.stats().downloads).toHaveLength(1)
    clock.advance(1)
    await eventually(() => {
      expect(cache.stats().downloads).toEqual([])
      expect(service.requests[0]?.body?.destroyed).toBe(true)
    })
    service.openGate()
    const again = cache.open(A)
    expect(again.readNow(Buffer.alloc(1000), 499_000)).toBe(1000)
    expect((await readAll(again)).equals(content)).toBe(true)
    expect(service.requests.map(({ start }) => start)).toEqual([0, 500_000])
    again.close()
  })

  it('goes on when somebody comes back within the grace', async () => {
    const { cache, service, clock } = await setUp()
    service.contents.set(A, noiseOf(MIB))
    service.closeGate(500_000)
    const reader = cache.open(A)
    await readSome(reader, 0, 1000)
    reader.close()
    clock.advance(4000)
    const again = cache.open(A)
    clock.advance(60_000)
    service.openGate()
    expect(await readAll(again)).toHaveLength(MIB)
    expect(service.requests).toHaveLength(1)
    again.close()
  })

  it('of a probe stops at once, without the grace', async () => {
    const { cache, service, clock } = await setUp()
    const content = noiseOf(MIB)
    service.contents.set(A, content)
    service.closeGate(100_000)
    const head = await cache.head(A, 4096)
    expect(Buffer.from(head.bytes).equals(content.subarray(0, 4096))).toBe(true)
    expect(head).toMatchObject({
      contentType: 'application/octet-stream',
      fileName: `${A}.bin`,
    })
    await eventually(() => {
      expect(service.requests[0]?.body?.destroyed).toBe(true)
    })
    expect(clock.waiting).toBe(0)
  })
})

describe('copying out', () => {
  it('writes the content of a bag that has to come first', async () => {
    const { cache, service, dir } = await setUp()
    const content = noiseOf(3 * MIB)
    service.contents.set(A, content)
    const seen: number[] = []
    const target = join(dir, 'copy')
    expect(await cache.copyTo(A, target, { onProgress: (bytes) => seen.push(bytes) })).toBe(3 * MIB)
    expect((await readFile(target)).equals(content)).toBe(true)
    expect(seen.at(-1)).toBe(3 * MIB)
    const second = join(dir, 'second')
    expect(await cache.copyTo(A, second)).toBe(3 * MIB)
    expect((await readFile(second)).equals(content)).toBe(true)
    expect(service.requests).toHaveLength(1)
  })

  it('leaves a file that is there alone, and nothing of a copy that failed', async () => {
    const { cache, service, dir } = await setUp()
    const target = join(dir, 'copy')
    await writeFile(target, 'mine')
    service.contents.set(A, noiseOf(10))
    await expect(cache.copyTo(A, target)).rejects.toMatchObject({ code: 'exists' })
    await readAll(cache.open(A))
    await expect(cache.copyTo(A, target)).rejects.toMatchObject({ code: 'exists' })
    expect(await readFile(target, 'utf8')).toBe('mine')
    const failing = join(dir, 'failing')
    await expect(cache.copyTo(B, failing)).rejects.toMatchObject({ code: 'gone' })
    await expect(stat(failing)).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

describe('adopting', () => {
  it('moves a local file in as complete content', async () => {
    const { cache, service, dir } = await setUp()
    const content = noiseOf(5000)
    const staged = join(dir, 'staged')
    await writeFile(staged, content, { mode: 0o644 })
    await cache.adopt(A, staged, 5000)
    await expect(stat(staged)).rejects.toMatchObject({ code: 'ENOENT' })
    expect(cache.isComplete(A)).toBe(true)
    expect(cache.stats()).toMatchObject({ bytes: 5000, bags: 1 })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(service.requests).toEqual([])
    expect(statSync(completePath(dir)).mode & 0o777).toBe(0o600)
  })

  it('serves readers of a running download from the file', async () => {
    const { cache, service, dir } = await setUp()
    const content = noiseOf(5000)
    service.contents.set(A, content)
    service.closeGate(100)
    const reader = cache.open(A)
    await readSome(reader, 0, 100)
    const waiting = readSome(reader, 4000, 1000)
    const staged = join(dir, 'staged')
    await writeFile(staged, content)
    await cache.adopt(A, staged, 5000)
    expect((await waiting).equals(content.subarray(4000))).toBe(true)
    reader.close()
    await cache.close()
    expect(await readdir(join(dir, 'cache', 'v1', 'aa'))).toEqual([A])
  })

  it('leaves the file when it is not what was said, or too large', async () => {
    const { cache, dir } = await setUp({ settings: { maxBytes: 1000 } })
    const staged = join(dir, 'staged')
    await writeFile(staged, noiseOf(500))
    await expect(cache.adopt(A, staged, 501)).rejects.toMatchObject({ code: 'invalid' })
    await writeFile(staged, noiseOf(1001))
    await expect(cache.adopt(A, staged, 1001)).rejects.toMatchObject({ code: 'too-large' })
    await expect(cache.adopt(A, dir, 500)).rejects.toMatchObject({ code: 'invalid' })
    await expect(cache.adopt(A, join(dir, 'none'), 1)).rejects.toMatchObject({ code: 'local-io' })
    expect((await stat(staged)).size).toBe(1001)
    expect(cache.stats().bytes).toBe(0)
  })
})

describe('opening', () => {
  it('refuses a directory that cannot be one, and a limit that is none', async () => {
    const dir = await makeDir()
    await writeFile(join(dir, 'file'), '')
    const { reopen } = await setUp()
    await expect(reopen({ dir: join(dir, 'file') })).rejects.toMatchObject({ code: 'local-io' })
    for (const maxBytes of [0, -1, NaN, 0.5]) {
      await expect(reopen({ maxBytes })).rejects.toMatchObject({ code: 'usage' })
    }
  })
})

describe('checking', () => {
  it('takes content with the right sum as complete', async () => {
    const { cache, service, facts } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    facts.learn(A, { sha256: sha256(content) })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect(cache.isComplete(A)).toBe(true)
  })

  it('sets wrong content aside, logs both sums, and gives the right bytes of a second download', async () => {
    const { cache, service, facts, log, dir } = await setUp()
    const content = noiseOf(300_000)
    const wrong = noiseOf(300_000, 9)
    service.contents.set(A, content)
    service.faults.push({ content: wrong })
    facts.learn(A, { sha256: sha256(content), length: 300_000 })
    const reader = cache.open(A)
    expect((await readSome(reader, 0, 300_000)).equals(content)).toBe(true)
    expect(service.requests).toHaveLength(2)
    expect(log.lines.find(({ level }) => level === 'error')?.fields).toEqual({
      bagId: A,
      expected: sha256(content),
      sum: sha256(wrong),
    })
    expect((await readFile(`${completePath(dir)}.bad`)).equals(wrong)).toBe(true)
  })

  it('fails a reader that was given bytes of wrong content', async () => {
    const { cache, service, facts } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ content: noiseOf(300_000, 9) })
    facts.learn(A, { sha256: sha256(content) })
    const reader = cache.open(A)
    await readSome(reader, 0, 1000)
    await expect(readSome(reader, 1000, 299_000)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(readSome(reader, 0, 10)).rejects.toMatchObject({ code: 'corrupt' })
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
  })

  it('fails a reader that may have bytes of wrong content from an earlier one', async () => {
    const { cache, service, facts } = await setUp()
    const content = noiseOf(300_000)
    service.contents.set(A, content)
    service.faults.push({ content: noiseOf(300_000, 9) })
    facts.learn(A, { sha256: sha256(content) })
    service.closeGate(100_000)
    const [first, later, other] = [cache.open(A), cache.open(A), cache.open(A)]
    await readSome(first, 0, 1000)
    later.noteKept()
    service.openGate()
    await expect(readSome(first, 1000, 299_000)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(readSome(later, 1000, 10)).rejects.toMatchObject({ code: 'corrupt' })
    expect((await readAll(other)).equals(content)).toBe(true)
  })

  it('answers corrupt when the second download is wrong too, and tries again later', async () => {
    const { cache, service, facts, dir } = await setUp()
    const content = noiseOf(1000)
    service.contents.set(A, content)
    service.faults.push({ content: noiseOf(1000, 8) }, { content: noiseOf(1000, 9) })
    facts.learn(A, { sha256: sha256(content) })
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 1000)).rejects.toMatchObject({ code: 'corrupt' })
    expect(service.requests).toHaveLength(2)
    expect(await readFile(`${completePath(dir)}.bad`)).toHaveLength(1000)
    expect((await readSome(reader, 0, 1000)).equals(content)).toBe(true)
  })

  it('keeps the last wrong content only', async () => {
    const { cache, service, facts, dir } = await setUp()
    for (const bag of [A, B]) {
      service.contents.set(bag, noiseOf(1000))
      facts.learn(bag, { sha256: sha256(noiseOf(1000)) })
      service.faults.push({ content: noiseOf(1000, 9) })
      await readSome(cache.open(bag), 0, 1000)
    }
    await cache.close()
    await expect(stat(`${completePath(dir, A)}.bad`)).rejects.toMatchObject({ code: 'ENOENT' })
    expect((await stat(`${completePath(dir, B)}.bad`)).size).toBe(1000)
  })

  it('checks content that came in pieces', async () => {
    const { cache, service, facts } = await setUp({ announcesRanges: true })
    const content = noiseOf(9 * MIB)
    service.contents.set(A, content)
    facts.learn(A, { sha256: sha256(content), length: content.length })
    const reader = cache.open(A)
    expect(
      (await readSome(reader, 8 * MIB, 1000)).equals(content.subarray(8 * MIB, 8 * MIB + 1000)),
    ).toBe(true)
    expect((await readAll(reader, MIB)).equals(content)).toBe(true)
    expect(cache.isComplete(A)).toBe(true)
  })
})
