import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished } from 'vitest'
import { BagCache } from '../../../src/content/bag-cache.ts'
import type { StreamCount } from '../../../src/content/stream-count.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService } from '../../../src/local-service/server.ts'
import type { ServiceEvent } from '../../../src/local-service/server.ts'
import { createHttpService } from '../../../src/service/http-service.ts'
import { startFaultProxy, type FaultProxy, type SeenRequest } from '../../support/fault-proxy.ts'
import { noiseOf } from '../../support/seed.ts'
import {
  cleanUp,
  countOf,
  FakeClock,
  makeDir,
  MemoryFacts,
  readAll,
  readSome,
  sha256,
} from './fake-downloads.ts'

afterEach(cleanUp)

const MIB = 1024 * 1024

const CONTENT = noiseOf(20 * MIB)

/** A bag of the real service, reached over HTTP, and a cache for it. */
async function setUp(count?: StreamCount) {
  const dir = await makeDir()
  const requests: ServiceEvent[] = []
  const local = await startLocalService(
    { dataDir: join(dir, 'data'), tokens: ['token'] },
    { log: silentLogger, onRequest: (event) => requests.push(event) },
  )
  onTestFinished(() => local.close())
  const proxy = await startFaultProxy(local.url)
  onTestFinished(() => proxy.close())
  const service = createHttpService(
    { log: silentLogger, clock: systemClock },
    { baseUrl: proxy.url, token: 'token' },
  )
  onTestFinished(() => service.close())
  const path = join(dir, 'upload')
  await writeFile(path, CONTENT)
  const source = { path, length: CONTENT.length, name: 'film.mp4', description: '' }
  const bagId = await service.uploadFile(source)
  const facts = new MemoryFacts()
  facts.learn(bagId, { sha256: sha256(CONTENT) })
  const cache = await BagCache.open(
    {
      ...{ service, log: silentLogger, clock: systemClock, facts },
      listedSizes: () => [CONTENT.length],
      ...(count === undefined ? {} : { count }),
    },
    {
      dir: join(dir, 'cache'),
      maxBytes: 1e9,
      minFreeBytes: 0,
      graceMs: 5000,
      resumeTries: 3,
      silenceMs: 30_000,
    },
  )
  onTestFinished(() => cache.close())
  return { dir, requests, proxy, bagId, cache }
}

it('reads a bag of the real service over HTTP: in parts, as a whole, and from disk', async () => {
  const { dir, requests, bagId, cache } = await setUp()
  const head = await cache.head(bagId, 1000)
  expect(CONTENT.subarray(0, 1000)).toEqual(head.bytes)
  expect(head.fileName).toBe('film.mp4')
  const reader = cache.open(bagId)
  expect(await reader.length()).toBe(CONTENT.length)
  const tail = await readSome(reader, CONTENT.length - 5000, 9000)
  expect(tail.equals(CONTENT.subarray(-5000))).toBe(true)
  expect((await readAll(reader, MIB)).equals(CONTENT)).toBe(true)
  expect(cache.isComplete(bagId)).toBe(true)
  reader.close()
  await cache.close()
  expect(await readdir(join(dir, 'cache', 'v1', bagId.slice(0, 2)))).toEqual([bagId])
  expect(requests.length).toBeGreaterThan(0)
})

/** Requests for a range that has an end: those beside another. */
const besideOf = ({ requests }: FaultProxy): readonly SeenRequest[] =>
  requests.filter(({ headers }) => /=[1-9]\d*-\d/.test(headers.range ?? ''))

const DOWNLOAD = { method: 'GET', path: /download/ }

it('reads a bag by several requests at a time, also when each of them is cut', async () => {
  const { proxy, bagId, cache } = await setUp(countOf(new FakeClock(), 4))
  proxy.add({ match: DOWNLOAD, times: 6, fault: { cutResponseAfter: 700_000 } })
  const reader = cache.open(bagId)
  expect((await readAll(reader, MIB)).equals(CONTENT)).toBe(true)
  await expect.poll(() => cache.isComplete(bagId)).toBe(true)
  reader.close()
  expect(besideOf(proxy).length).toBeGreaterThan(1)
})

it('tries a second request where one is slow', async () => {
  const { proxy, bagId, cache } = await setUp()
  proxy.add({ match: DOWNLOAD, fault: { bytesPerSecond: 2 * MIB } })
  const reader = cache.open(bagId)
  expect((await readAll(reader, MIB)).equals(CONTENT)).toBe(true)
  reader.close()
  expect(besideOf(proxy).length).toBeGreaterThan(0)
})
