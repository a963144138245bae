import { afterEach, describe, expect, it } from 'vitest'
import type { BagCache } from '../../../src/content/bag-cache.ts'
import { ReadTally } from '../../../src/content/read-tally.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import { eventually } from '../../support/eventually.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, FakeClock, id, readAll, readSome, setUp } from './fake-downloads.ts'

afterEach(cleanUp)

const [A, B, C] = [id('a'), id('b'), id('c')]
const MIB = 1024 * 1024

/** Reads a bag to its end; resolves when it is idle. */
async function visit(cache: BagCache, bag: BagId, bytes: number): Promise<void> {
  const reader = cache.open(bag)
  await readAll(reader)
  reader.close()
  await eventually(() => {
    expect(cache.stats().bytes).toBe(bytes)
  })
}

describe('pinned content', () => {
  it('stays when the limit is reached, and goes like any other once it is pinned no more', async () => {
    const { cache, service } = await setUp({ settings: { maxBytes: 250_000 } })
    for (const bag of [A, B, C]) service.contents.set(bag, noiseOf(100_000))
    await visit(cache, A, 100_000)
    cache.pin([A])
    for (const [bag, bytes] of [
      [B, 200_000],
      [C, 200_000],
      [B, 200_000],
    ] as const)
      await visit(cache, bag, bytes)
    expect([A, B, C].map((bag) => cache.isComplete(bag))).toEqual([true, true, false])
    await visit(cache, A, 200_000)
    expect(cache.stats()).toMatchObject({ bags: 2 })
    cache.pin([])
    await visit(cache, C, 200_000)
    await visit(cache, B, 200_000)
    expect(cache.isComplete(A)).toBe(false)
  })

  it('stays when it is larger than the limit of the next mount, and other content is still read', async () => {
    const { cache, service, reopen } = await setUp()
    service.contents.set(A, noiseOf(300_000))
    service.contents.set(B, noiseOf(100_000))
    await visit(cache, A, 300_000)
    await cache.close()
    const next = await reopen({ maxBytes: 200_000 }, [A])
    expect(next.isComplete(A)).toBe(true)
    await visit(next, B, 300_000)
    expect(next.isComplete(A)).toBe(true)
    next.pin([])
    expect(next.isComplete(A)).toBe(false)
  })

  it('stays also in part, when all is cleared, and when the disk has less left than its floor', async () => {
    const { cache, service, clock } = await setUp({
      freeBytes: () => Promise.resolve(0),
      settings: { minFreeBytes: MIB },
      chunkBytes: 64 * 1024,
    })
    service.contents.set(A, noiseOf(MIB))
    service.contents.set(B, noiseOf(MIB))
    cache.pin([A])
    service.closeGate(300_000)
    const reader = cache.open(A)
    await readSome(reader, 0, 300_000)
    reader.close()
    clock.advance(5000)
    await eventually(() => {
      expect(cache.stats()).toMatchObject({ bytes: 300_000, downloads: [] })
    })
    service.openGate()
    await cache.clear()
    expect(await cache.room.evictOne()).toBe(false)
    expect(cache.heldOf(A).bytes).toBe(300_000)
    expect(await cache.room.evictPinned()).toBe(true)
    expect(cache.heldOf(A).bytes).toBe(0)
    expect(await cache.room.evictPinned()).toBe(false)
  })
})

describe('content that is fetched ahead', () => {
  it('is given up as soon as there is no room to keep it', async () => {
    const { cache, service } = await setUp({
      settings: { maxBytes: 2 * MIB },
      chunkBytes: 64 * 1024,
    })
    service.contents.set(A, noiseOf(12 * MIB))
    await expect(cache.fetch(A)).rejects.toMatchObject({ code: 'local-disk-full' })
    const sent = service.requests.reduce((sum, request) => sum + request.sent, 0)
    expect(sent).toBeLessThan(8 * MIB)
  })

  it('waits for programs that wait for the service, and for those that read in a row', async () => {
    const clock = new FakeClock()
    clock.isFast = false
    const tally = new ReadTally({ clock })
    let isOver = false
    let answer = (): void => undefined
    const read = tally.waiting(
      () =>
        new Promise<void>((resolve) => {
          answer = resolve
        }),
    )
    const behind = tally.untilNoneWaits().then(() => {
      isOver = true
    })
    await eventually(() => {
      expect(clock.waiting).toBe(1)
    })
    answer()
    await read
    clock.advance(500)
    await behind
    expect(isOver).toBe(true)
    await tally.untilNoneWaits()
  })
})
