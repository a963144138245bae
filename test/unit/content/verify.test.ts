import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { BagCache } from '../../../src/content/bag-cache.ts'
import { verifyCache } from '../../../src/content/verify.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, setUp, sha256 } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

const A = id('a')
const B = id('b')
const C = id('c')

async function fetchAll(cache: BagCache, ...bags: readonly BagId[]): Promise<void> {
  for (const bag of bags) {
    const reader = cache.open(bag)
    await readAll(reader)
    reader.close()
    await eventually(() => {
      expect(cache.isComplete(bag)).toBe(true)
    })
  }
}

/** Three bags in the cache, two of them with a known sum; opened anew, so that none is in use. */
async function begin() {
  const parts = await setUp()
  const content = noiseOf(100_000)
  for (const bag of [A, B, C]) parts.service.contents.set(bag, content)
  parts.facts.learn(A, { sha256: sha256(content) })
  parts.facts.learn(B, { sha256: sha256(content) })
  await fetchAll(parts.cache, A, B, C)
  const path = (bag: BagId): string => join(parts.dir, 'cache', 'v1', bag.slice(0, 2), bag)
  await parts.cache.close()
  return { ...parts, cache: await parts.reopen(), content, path }
}

it('tells good content from content that nothing is known of, and counts no others', async () => {
  const { cache } = await begin()
  const checked: number[] = []
  const report = await verifyCache(cache, [A, B, C, id('d')], {
    onProgress: (count) => checked.push(count),
  })
  expect(report).toEqual({ good: 2, unknown: 1, bad: [], unreadable: [] })
  expect(checked).toEqual([1, 2, 3])
})

it('sets bad content aside, and the next reader has it downloaded again', async () => {
  const { cache, service, content, path } = await begin()
  writeFileSync(path(B), Buffer.alloc(100_000), { flag: 'r+' })
  expect((await verifyCache(cache, [A, B, C])).bad).toEqual([B])
  expect(cache.isComplete(B)).toBe(false)
  service.requests.length = 0
  const reader = cache.open(B)
  expect((await readAll(reader)).equals(content)).toBe(true)
  reader.close()
  expect(service.requests).toHaveLength(1)
  expect((await verifyCache(cache, [A, B, C])).bad).toEqual([])
})

it('finds content that was cut short', async () => {
  const { cache, path } = await begin()
  writeFileSync(path(B), 'short', { flag: 'w' })
  expect((await verifyCache(cache, [A, B, C])).bad).toEqual([B])
})

it('tells a reader that holds bytes which turned out to be wrong', async () => {
  const { cache, path } = await begin()
  writeFileSync(path(B), Buffer.alloc(100_000), { flag: 'r+' })
  const reader = cache.open(B)
  await reader.read(Buffer.alloc(10), 0)
  expect(await cache.verify(B)).toBe('bad')
  await expect(reader.read(Buffer.alloc(10), 10)).rejects.toMatchObject({ code: 'corrupt' })
  reader.close()
})

it('refuses content that is not there', async () => {
  const { cache } = await setUp()
  await expect(cache.verify(A)).rejects.toMatchObject({ code: 'not-found' })
})
