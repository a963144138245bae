import { readdirSync, statSync } from 'node:fs'
import {
  chmod,
  cp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { BagCache } from '../../../src/content/bag-cache.ts'
import { ifThere } from '../../../src/disk/if-there.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, readSome, setUp, sha256 } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

const A = id('a')
const B = id('b')
const C = id('c')
const MIB = 1024 * 1024

const pathOf = (dir: string, bag: BagId): string => join(dir, 'cache', 'v1', bag.slice(0, 2), bag)

/** Whether this process has a descriptor of the content of `bag`. */
async function isOpen(bag: BagId): Promise<boolean> {
  const descriptors = await readdir('/proc/self/fd')
  // The descriptor by which the directory was listed is closed by now.
  const targets = descriptors.map((fd) => ifThere(readlink(`/proc/self/fd/${fd}`)))
  return (await Promise.all(targets)).some((target) => target?.includes(bag))
}

/** Reads a bag to its end and closes it; resolves when it is idle. */
async function visit(cache: BagCache, bag: BagId): Promise<void> {
  const reader = cache.open(bag)
  await readAll(reader, MIB)
  reader.close()
  await eventually(async () => {
    expect(await isOpen(bag)).toBe(false)
  })
}

/** Bytes of all content files, as the disk has them. */
function onDisk(dir: string): number {
  let bytes = 0
  for (const name of readdirSync(join(dir, 'cache', 'v1'), { recursive: true })) {
    const found = statSync(join(dir, 'cache', 'v1', String(name)), { throwIfNoEntry: false })
    if (found?.isFile() === true) bytes += found.size
  }
  return bytes
}

describe('the limit', () => {
  it('evicts the least recently used', async () => {
    const { cache, service } = await setUp({ settings: { maxBytes: 250_000 } })
    for (const bag of [A, B, C]) service.contents.set(bag, noiseOf(100_000))
    await visit(cache, A)
    await visit(cache, B)
    await visit(cache, A)
    await visit(cache, C)
    expect([A, B, C].map((bag) => cache.isComplete(bag))).toEqual([true, false, true])
    expect(service.requests).toHaveLength(3)
    expect(cache.stats()).toMatchObject({ bytes: 200_000, bags: 2 })
  })

  it('is held while bytes arrive, to within one write', async () => {
    const chunkBytes = 64 * 1024
    const { cache, service, dir } = await setUp({
      chunkBytes,
      settings: { maxBytes: MIB },
    })
    for (const bag of [A, B, C]) service.contents.set(bag, noiseOf(700_000))
    await visit(cache, A)
    const reader = cache.open(B)
    for (let at = 0; at < 700_000; at += 50_000) {
      await readSome(reader, at, 50_000)
      expect(cache.stats().bytes).toBeLessThanOrEqual(MIB)
      expect(onDisk(dir)).toBeLessThanOrEqual(MIB + chunkBytes)
    }
    expect(cache.isComplete(A)).toBe(false)
  })

  it('is held while one bag after the other is read and closed, however fast', async () => {
    const { cache, service } = await setUp({ settings: { maxBytes: MIB } })
    const bags = Array.from({ length: 16 }, (_, index) => id(index.toString(16)))
    for (const bag of bags) service.contents.set(bag, noiseOf(300_000))
    for (const bag of bags) {
      const reader = cache.open(bag)
      await readAll(reader)
      reader.close()
      expect(cache.stats().bytes).toBeLessThanOrEqual(MIB)
    }
  })

  it('does not take content from under a reader, and holds again when it is closed', async () => {
    const { cache, service, dir } = await setUp({ settings: { maxBytes: 250_000 } })
    const content = noiseOf(100_000)
    for (const bag of [A, B, C]) service.contents.set(bag, content)
    const readers = [A, B, C].map((bag) => cache.open(bag))
    for (const reader of readers) expect((await readAll(reader)).equals(content)).toBe(true)
    for (const reader of readers) {
      expect((await readSome(reader, 0, 100_000)).equals(content)).toBe(true)
    }
    expect(service.requests).toHaveLength(3)
    for (const reader of readers) reader.close()
    await eventually(() => {
      expect(cache.stats()).toMatchObject({ bytes: 200_000, bags: 2 })
      expect(onDisk(dir)).toBe(200_000)
    })
  })

  it('lets a bag be read that is larger than it, and keeps the others', async () => {
    const { cache, service, dir } = await setUp({ settings: { maxBytes: 500_000 } })
    const content = noiseOf(MIB)
    service.contents.set(A, content)
    service.contents.set(B, noiseOf(1000))
    const reader = cache.open(A)
    expect((await readAll(reader)).equals(content)).toBe(true)
    reader.close()
    await visit(cache, B)
    await eventually(() => {
      expect(onDisk(dir)).toBe(1000)
    })
    expect(cache.isComplete(A)).toBe(false)
    expect(cache.isComplete(B)).toBe(true)
  })

  it('counts partial content, and evicts it like any other', async () => {
    const { cache, service, clock, dir } = await setUp({ settings: { maxBytes: MIB } })
    service.contents.set(A, noiseOf(MIB))
    service.contents.set(B, noiseOf(900_000))
    service.closeGate(300_000)
    const reader = cache.open(A)
    await readSome(reader, 0, 300_000)
    reader.close()
    clock.advance(5000)
    await eventually(() => {
      expect(cache.stats()).toMatchObject({ bytes: 300_000, downloads: [] })
    })
    service.openGate()
    await visit(cache, B)
    expect(cache.stats()).toMatchObject({ bytes: 900_000, bags: 1 })
    expect(readdirSync(dirname(pathOf(dir, A)))).toEqual([])
  })

  it('holds from the start when it was lowered', async () => {
    const { cache, service, reopen, dir } = await setUp()
    for (const bag of [A, B]) {
      service.contents.set(bag, noiseOf(100_000))
      await visit(cache, bag)
    }
    await cache.close()
    await utimes(pathOf(dir, A), 1000, 1000)
    const next = await reopen({ maxBytes: 150_000 })
    expect(next.isComplete(A)).toBe(false)
    expect(next.isComplete(B)).toBe(true)
    await next.close()
    expect(onDisk(dir)).toBe(100_000)
  })

  it('is emptied by clear, except of what is open', async () => {
    const { cache, service, dir } = await setUp()
    const content = noiseOf(100_000)
    for (const bag of [A, B]) service.contents.set(bag, content)
    await visit(cache, A)
    const reader = cache.open(B)
    await readAll(reader)
    await cache.clear()
    expect(cache.isComplete(A)).toBe(false)
    expect((await readAll(reader)).equals(content)).toBe(true)
    expect(onDisk(dir)).toBe(100_000)
  })

  it('is never passed by idle content, whatever is read', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ bag: fc.integer({ min: 0, max: 5 }), close: fc.boolean() }), {
          minLength: 3,
          maxLength: 15,
        }),
        async (visits) => {
          const { cache, service, dir } = await setUp({ settings: { maxBytes: 200_000 } })
          const bags = ['0', '1', '2', '3', '4', '5'].map(id)
          const sizes = bags.map((_, index) => 20_000 + index * 25_000)
          for (const [index, bag] of bags.entries()) {
            service.contents.set(bag, noiseOf(sizes[index] ?? 0, index))
          }
          for (const { bag } of visits) await visit(cache, bags[bag] ?? A)
          await eventually(() => {
            expect(cache.stats().bytes).toBeLessThanOrEqual(200_000)
            expect(onDisk(dir)).toBe(cache.stats().bytes)
          })
          await cleanUp()
        },
      ),
      { numRuns: 15 },
    )
  })
})

describe('the free-space floor', () => {
  it('evicts when the disk has less left than it', async () => {
    const { cache, service } = await setUp({
      freeBytes: (dir) => Promise.resolve(40 * MIB - onDisk(dirname(dir))),
      settings: { minFreeBytes: 10 * MIB },
      chunkBytes: MIB,
    })
    for (const bag of [A, B, C]) service.contents.set(bag, noiseOf(12 * MIB))
    for (const bag of [A, B, C]) {
      await visit(cache, bag)
    }
    expect(cache.isComplete(A)).toBe(false)
    expect(cache.isComplete(B)).toBe(true)
    expect(cache.isComplete(C)).toBe(true)
  })

  it('with nothing to evict, content of any size is read through a few megabytes', async () => {
    const { cache, service, dir } = await setUp({
      freeBytes: () => Promise.resolve(0),
      settings: { minFreeBytes: MIB },
      chunkBytes: MIB,
    })
    const content = noiseOf(60 * MIB)
    service.contents.set(A, content)
    const reader = cache.open(A)
    let most = 0
    for (let at = 0; at < content.length; at += MIB) {
      const bytes = await readSome(reader, at, MIB)
      expect(bytes.equals(content.subarray(at, at + MIB))).toBe(true)
      most = Math.max(most, statSync(pathOf(dir, A) + '.part').blocks * 512)
    }
    expect(most).toBeLessThan(20 * MIB)
    // Reading back what was dropped fetches it again.
    expect((await readSome(reader, 0, MIB)).equals(content.subarray(0, MIB))).toBe(true)
    reader.close()
    await cache.close()
    expect(cache.stats().bytes).toBeLessThan(20 * MIB)
  })
})

describe('after a crash', () => {
  it('half a file is never taken for a whole one', async () => {
    const { cache, service, dir, reopen } = await setUp()
    const content = noiseOf(60 * MIB)
    service.contents.set(A, content)
    service.closeGate(40 * MIB)
    const reader = cache.open(A)
    for (let at = 0; at < 40 * MIB; at += 4 * MIB) await readSome(reader, at, 4 * MIB)
    await eventually(() => stat(`${pathOf(dir, A)}.ranges`))
    // What a kill leaves: the files as they are, nothing written down for the occasion.
    await cp(join(dir, 'cache'), join(dir, 'killed'), { recursive: true })
    const next = await reopen({ dir: join(dir, 'killed') })
    expect(next.isComplete(A)).toBe(false)
    expect(next.lengthOf(A)).toBeUndefined()
    service.openGate()
    const before = service.requests.length
    expect((await readAll(next.open(A), 4 * MIB)).equals(content)).toBe(true)
    expect(service.requests[before]?.start).toBeGreaterThan(0)
  })

  it('what cannot be used is removed, and what is not ours stays', async () => {
    const { cache, service, dir, reopen } = await setUp()
    const content = noiseOf(100_000)
    for (const bag of [A, B]) service.contents.set(bag, content)
    await visit(cache, A)
    await cache.close()
    const folder = dirname(pathOf(dir, A))
    const other = `aa${'0'.repeat(62)}`
    await writeFile(join(folder, `${other}.part`), content)
    await writeFile(join(folder, `${A}.part`), content)
    await writeFile(join(folder, `${A}.ranges`), '{}')
    await writeFile(join(folder, `${other}.ranges.new`), '{}')
    await writeFile(join(folder, 'notes.txt'), 'mine')
    const next = await reopen()
    expect(readdirSync(folder).sort()).toEqual([A, 'notes.txt'].sort())
    expect((await readAll(next.open(A))).equals(content)).toBe(true)
    expect(service.requests).toHaveLength(1)
  })

  it.each([
    ['garbage', 'not JSON'],
    ['the ranges of another bag', JSON.stringify({ bagId: 'other', ranges: [[0, 9]] })],
    ['ranges past the end', JSON.stringify({ bagId: A, ranges: [[0, 9e9]] })],
    ['a length that is too short', JSON.stringify({ bagId: A, total: 5, ranges: [[0, 900]] })],
    ['no ranges', JSON.stringify({ bagId: A, total: 5 })],
  ])('%s beside a part is not believed', async (_what, text) => {
    const { cache, service, dir, reopen } = await setUp()
    const content = noiseOf(1000)
    service.contents.set(A, content)
    await visit(cache, A)
    await cache.close()
    await rm(pathOf(dir, A))
    await writeFile(`${pathOf(dir, A)}.part`, noiseOf(1000, 66))
    await writeFile(`${pathOf(dir, A)}.ranges`, text)
    const next = await reopen()
    expect((await readAll(next.open(A))).equals(content)).toBe(true)
  })

  it('a whole file of the wrong length is fetched again', async () => {
    const { cache, service, dir, reopen } = await setUp()
    const content = noiseOf(1000)
    service.contents.set(A, content)
    await visit(cache, A)
    await cache.close()
    await truncate(pathOf(dir, A), 900)
    const next = await reopen()
    expect((await readAll(next.open(A))).equals(content)).toBe(true)
    expect(service.requests).toHaveLength(2)
  })

  it('a whole set of ranges is checked before it is called complete', async () => {
    const { cache, service, dir, reopen, facts } = await setUp()
    const content = noiseOf(1000)
    service.contents.set(A, content)
    await visit(cache, A)
    await cache.close()
    await rm(pathOf(dir, A))
    await writeFile(`${pathOf(dir, A)}.part`, noiseOf(1000, 66))
    const ranges = { bagId: A, total: 1000, ranges: [[0, 1000]] }
    await writeFile(`${pathOf(dir, A)}.ranges`, JSON.stringify(ranges))
    facts.learn(A, { sha256: sha256(content) })
    const next = await reopen()
    expect((await readSome(next.open(A), 0, 1000)).equals(content)).toBe(true)
  })

  it('a cache that somebody deleted meanwhile goes on', async () => {
    const { cache, service, dir } = await setUp()
    const content = noiseOf(1000)
    for (const bag of [A, B, C]) service.contents.set(bag, content)
    await visit(cache, A)
    const reader = cache.open(B)
    await readAll(reader)
    await rm(join(dir, 'cache', 'v1'), { recursive: true, maxRetries: 3 })
    expect((await readAll(reader)).equals(content)).toBe(true)
    reader.close()
    expect((await readAll(cache.open(A))).equals(content)).toBe(true)
    expect((await readAll(cache.open(C))).equals(content)).toBe(true)
  })

  it.skipIf(process.getuid?.() === 0)('a directory without permission is an error', async () => {
    const { cache, service, dir } = await setUp()
    service.contents.set(A, noiseOf(10))
    await chmod(join(dir, 'cache', 'v1'), 0o500)
    await expect(readAll(cache.open(A))).rejects.toMatchObject({ code: 'local-io' })
    await chmod(join(dir, 'cache', 'v1'), 0o700)
  })

  it('content that is whole is on disk under its own name only, byte for byte', async () => {
    const { cache, service, dir } = await setUp({ announcesRanges: true })
    const content = noiseOf(20 * MIB)
    service.contents.set(A, content)
    const reader = cache.open(A)
    await readSome(reader, 15 * MIB, 10)
    await readAll(reader, MIB)
    reader.close()
    await cache.close()
    expect(readdirSync(dirname(pathOf(dir, A)))).toEqual([A])
    expect((await readFile(pathOf(dir, A))).equals(content)).toBe(true)
  })
})
