import { afterEach, expect, it } from 'vitest'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, setUp, sha256 } from './fake-downloads.ts'

afterEach(cleanUp)

const A = id('a')
const CONTENT = noiseOf(10_000)
const SENT = { length: CONTENT.length, sha256: sha256(CONTENT) }

/** The bag A in the cache with what two answers brought, as an earlier process left it or as it just came. */
async function cameAs(wrong: Uint8Array, isLeft: boolean) {
  const parts = await setUp()
  parts.service.contents.set(A, CONTENT)
  // Nothing is believed only where little is listed.
  if (wrong.length === 0) parts.service.listed.set(A, [1_000])
  parts.service.faults.push({ content: wrong }, { content: wrong })
  if (!isLeft) return parts
  await parts.cache.sumOf(A)
  parts.service.faults.length = 0
  await parts.cache.close()
  return { ...parts, cache: await parts.reopen() }
}

it.each([
  ['half of it', CONTENT.subarray(0, 5_000), false],
  ['half of it', CONTENT.subarray(0, 5_000), true],
  ['nothing', Buffer.alloc(0), false],
  ['nothing', Buffer.alloc(0), true],
])(
  'content that came twice as %s, and is listed as longer, is not kept when it is not what was sent (case %#)',
  async (_what, wrong, isLeft) => {
    const { cache, facts } = await cameAs(wrong, isLeft)
    expect(await cache.holds(A, SENT)).toBe(false)
    await expect.poll(() => cache.lengthOf(A)).toBeUndefined()
    expect(facts.get(A)?.length).toBeUndefined()
    expect(await cache.holds(A, SENT)).toBe(true)
    expect(cache.isComplete(A)).toBe(true)
  },
)

it.each([false, true])(
  'content of the listed length is asked for again only if the service vouches for it (left before: %s)',
  async (isLeft) => {
    const { cache, service } = await cameAs(noiseOf(CONTENT.length, 2), isLeft)
    expect(await cache.holds(A, SENT)).toBe(false)
    service.faults.length = 0
    const { length } = service.requests
    expect(await cache.holds(A, SENT)).toBe(false)
    expect(service.requests).toHaveLength(length)
    expect(await cache.holds(A, SENT, { isVouched: true })).toBe(false)
    await expect.poll(() => cache.isComplete(A)).toBe(false)
    expect(await cache.holds(A, SENT)).toBe(true)
    expect(service.requests).toHaveLength(length + 1)
  },
)
