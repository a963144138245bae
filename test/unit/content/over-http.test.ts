import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished } from 'vitest'
import { BagCache } from '../../../src/content/bag-cache.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService } from '../../../src/local-service/server.ts'
import type { ServiceEvent } from '../../../src/local-service/server.ts'
import { createHttpService } from '../../../src/service/http-service.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, makeDir, MemoryFacts, readAll, readSome, sha256 } from './fake-downloads.ts'

afterEach(cleanUp)

const MIB = 1024 * 1024

it('reads a bag of the real service over HTTP: in parts, as a whole, and from disk', async () => {
  const dir = await makeDir()
  const requests: ServiceEvent[] = []
  const local = await startLocalService(
    { dataDir: join(dir, 'data'), tokens: ['token'] },
    { log: silentLogger, onRequest: (event) => requests.push(event) },
  )
  onTestFinished(() => local.close())
  const service = createHttpService(
    { log: silentLogger, clock: systemClock },
    { baseUrl: local.url, token: 'token' },
  )
  onTestFinished(() => service.close())
  const content = noiseOf(20 * MIB)
  const path = join(dir, 'upload')
  await writeFile(path, content)
  const source = { path, length: content.length, name: 'film.mp4', description: '' }
  const bagId = await service.uploadFile(source)
  const facts = new MemoryFacts()
  facts.learn(bagId, { sha256: sha256(content) })
  const cache = await BagCache.open(
    { service, log: silentLogger, clock: systemClock, facts, listedSizes: () => [content.length] },
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

  const head = await cache.head(bagId, 1000)
  expect(content.subarray(0, 1000)).toEqual(head.bytes)
  expect(head.fileName).toBe('film.mp4')
  const reader = cache.open(bagId)
  expect(await reader.length()).toBe(content.length)
  const tail = await readSome(reader, content.length - 5000, 9000)
  expect(tail.equals(content.subarray(-5000))).toBe(true)
  expect((await readAll(reader, MIB)).equals(content)).toBe(true)
  expect(cache.isComplete(bagId)).toBe(true)
  reader.close()
  await cache.close()
  expect(await readdir(join(dir, 'cache', 'v1', bagId.slice(0, 2)))).toEqual([bagId])
  expect(requests.length).toBeGreaterThan(0)
})
