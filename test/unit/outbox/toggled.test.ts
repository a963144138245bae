import { describe, expect, it } from 'vitest'
import { toBagId, type BagId, type IntentId } from '../../../src/domain/ids.ts'
import type { PutIntent } from '../../../src/intents/intent.ts'
import { publish, withoutFailure } from '../../../src/intents/transitions.ts'
import { buildTree } from '../../../src/namespace/tree.ts'
import { putOf } from './requested-changes.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const stop = new AbortController().signal

/** Stores new content, and deletes what it replaces. */
async function store(
  shop: Workshop,
  content: string,
  more: Partial<PutIntent> = {},
): Promise<{ readonly id: IntentId; readonly bagId: BagId }> {
  const id = await shop.put('f', content, more)
  await shop.uploader.attempt(id)
  await shop.uploader.finished(id)
  const { bagId } = putOf(shop, id)
  if (bagId === undefined) throw new Error('It has no bag.')
  return { id, bagId }
}

/** A process that is killed when its upload has arrived: the intents are as they were while it was sent. */
async function killWhileSent(
  shop: Workshop,
  content: string,
  more: Partial<PutIntent>,
): Promise<IntentId> {
  await shop.service.upload('f', content)
  return shop.put('f', content, { sentAtMs: Date.now(), ...more })
}

async function uploadedAtMs({ listing }: Workshop, bagId: BagId): Promise<number> {
  const { index } = await listing.refreshNow()
  return Math.max(...index.recordsOf(bagId).map((record) => record.uploadedAtMs))
}

/** What the service has after the next process has sent everything. */
async function storedByNext(shop: Workshop): Promise<readonly string[]> {
  const next = await shop.restart()
  expect(await next.uploader.drain(stop)).toEqual([])
  const records = await next.service.list()
  const contents = records.map(async ({ bag_id }) => String(await next.service.content(bag_id)))
  return (await Promise.all(contents)).sort()
}

describe('content that comes back while its upload is cut by a kill', () => {
  it('goes with what takes its place when the change before deleted it', async () => {
    const shop = await openWorkshop()
    const on = await store(shop, 'on')
    const off = await store(shop, 'off', { replaces: [on.bagId] })
    const again = await killWhileSent(shop, 'on', { replaces: [off.bagId] })
    await shop.put('f', 'last', { supersedes: [again] })
    expect(await storedByNext(shop)).toEqual(['last'])
  })

  it('goes as it was uploaded then, and not as it was known before', async () => {
    const shop = await openWorkshop()
    const again = await killWhileSent(shop, 'on', {})
    const on = toBagId((await shop.service.list())[0]?.bag_id ?? '')
    const atMs = await uploadedAtMs(shop, on)
    const uploaded = [{ bagId: on, atMs: 1 }]
    const last = await shop.put('f', 'last', { replaces: [on], supersedes: [again], uploaded })
    const next = await shop.restart()
    expect(await next.uploader.drain(stop)).toEqual([])
    expect(putOf(next, last)).toMatchObject({ uploaded: [{ bagId: on, atMs }] })
    expect(await next.service.list()).toHaveLength(1)
  })

  it('goes when a delete takes its place', async () => {
    const shop = await openWorkshop()
    const on = await store(shop, 'on')
    const off = await store(shop, 'off', { replaces: [on.bagId] })
    const again = await killWhileSent(shop, 'on', { replaces: [off.bagId] })
    await shop.delete('f', [], { supersedes: [again] })
    expect(await storedByNext(shop)).toEqual([])
  })

  it('goes when it had inherited that the bag was deleted', async () => {
    const shop = await openWorkshop()
    const on = await store(shop, 'on')
    const off = await store(shop, 'off', { supersedes: [on.id] })
    const again = await killWhileSent(shop, 'on', {
      replaces: [on.bagId, off.bagId],
      deleted: [{ bagId: on.bagId, atMs: Date.now() }],
    })
    await shop.outbox.remove(off.id)
    await shop.put('f', 'last', { supersedes: [again] })
    expect(await storedByNext(shop)).toEqual(['last'])
  })

  it('goes when what takes its place knew that the bag was deleted, and when it was uploaded', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const again = await killWhileSent(shop, 'on', {})
    await shop.put('f', 'last', {
      replaces: [on],
      supersedes: [again],
      deleted: [{ bagId: on, atMs: Date.now() }],
      uploaded: [{ bagId: on, atMs: 1 }],
    })
    expect(await storedByNext(shop)).toEqual(['last'])
  })

  it.each(['namesake', 'no namesake'])(
    'goes when it is the content that it replaces (%s)',
    async (kind) => {
      const shop = await openWorkshop()
      const on = await shop.given('f', 'on')
      const again = await killWhileSent(shop, 'on', {
        replaces: [on],
        uploaded: [{ bagId: on, atMs: (await uploadedAtMs(shop, on)) - 1 }],
        ...(kind === 'namesake' ? { namesakes: [on] } : {}),
      })
      await shop.put('f', 'last', { supersedes: [again] })
      expect(await storedByNext(shop)).toEqual(['last'])
    },
  )

  it('goes when changes before it were not carried out', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const uploaded = [{ bagId: on, atMs: await uploadedAtMs(shop, on) }]
    const off = await shop.put('f', 'off', { replaces: [on], uploaded })
    const again = await killWhileSent(shop, 'on', { supersedes: [off] })
    await shop.put('f', 'last', { supersedes: [again] })
    expect(await storedByNext(shop)).toEqual(['last'])
  })

  it('stays when nobody uploaded it, and another machine stored it again', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const uploaded = [{ bagId: on, atMs: (await uploadedAtMs(shop, on)) - 1 }]
    const off = await shop.put('f', 'off', { replaces: [on], uploaded, sentAtMs: Date.now() })
    await shop.put('f', 'last', { supersedes: [off] })
    expect(await storedByNext(shop)).toEqual(['last', 'on'])
  })

  it('stays when another entry shows it', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const again = await killWhileSent(shop, 'on', { namesakes: [on] })
    await shop.put('f', 'last', { supersedes: [again] })
    expect(await storedByNext(shop)).toEqual(['last', 'on'])
  })
})

describe('a bag that stays because another machine stored it again', () => {
  it('is not hidden by what takes the place of the change that was to delete it', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const uploaded = [{ bagId: on, atMs: (await uploadedAtMs(shop, on)) - 1 }]
    const off = await store(shop, 'off', { replaces: [on], uploaded })
    expect(putOf(shop, off.id).replacedAreDeleted).toBe(true)
    const last = await store(shop, 'last', { supersedes: [off.id] })
    expect(putOf(shop, last.id).replaces).toEqual([off.bagId])
    const names = (await shop.service.list()).map(({ bag_id }) => bag_id)
    expect(names).toEqual([on, last.bagId])
  })
})

describe('a bag that a folder takes the place of which is as its base again', () => {
  const asBase = (base: BagId, next: BagId): Partial<PutIntent> => ({
    ...{ phase: 'confirmed', bagId: base, confirmedAtMs: Date.now() },
    ...{ isFolder: true, changes: { base, start: 0, packed: 0 }, replaces: [next] },
  })

  it('goes although it is later than the base', async () => {
    const shop = await openWorkshop()
    const base = await shop.given('f', 'base')
    await shop.put('f', 'base', asBase(base, await shop.given('g', 'next')))
    expect(await storedByNext(shop)).toEqual(['base'])
  })

  it('stays when another machine stored it again', async () => {
    const shop = await openWorkshop()
    const base = await shop.given('f', 'base')
    const next = await shop.given('g', 'next')
    const uploaded = [{ bagId: next, atMs: (await uploadedAtMs(shop, next)) - 1 }]
    await shop.put('f', 'base', { ...asBase(base, next), uploaded })
    expect(await storedByNext(shop)).toEqual(['base', 'next'])
  })
})

describe('a bag of an upload of here that ended after what takes its place was sent', () => {
  const uploads = async (shop: Workshop) => {
    const stored = await shop.given('f', 'stored')
    const late = await shop.given('g', 'late')
    const storedAtMs = await uploadedAtMs(shop, stored)
    const laterMs = (await uploadedAtMs(shop, late)) - storedAtMs
    const put = (answeredAtMs: number): Partial<PutIntent> => ({
      ...{ phase: 'confirmed', bagId: stored, confirmedAtMs: Date.now(), replaces: [late] },
      ...{ sentAtMs: 5, ownUploads: [{ bagId: late, atMs: 5 + answeredAtMs }] },
    })
    return { storedAtMs, laterMs, put }
  }

  it.each(['listed', 'known'])('goes (when that was stored is %s)', async (kind) => {
    const shop = await openWorkshop()
    const { put, laterMs, storedAtMs } = await uploads(shop)
    const known = kind === 'known' ? { uploadedAtMs: storedAtMs } : {}
    await shop.put('f', 'stored', { ...put(laterMs), ...known })
    expect(await storedByNext(shop)).toEqual(['stored'])
  })

  it('stays when it was stored later than it was answered', async () => {
    const shop = await openWorkshop()
    const { put, laterMs } = await uploads(shop)
    await shop.put('f', 'stored', put(laterMs - 1))
    expect(await storedByNext(shop)).toEqual(['late', 'stored'])
  })
})

describe('a bag whose id is given to equal content', () => {
  const namesIn = (shop: Workshop): readonly string[] =>
    [...buildTree(shop.listing.current()?.index, shop.outbox.intents()).entries()]
      .map(({ shown }) => shown)
      .sort()

  it('stays when a change of before is taken over by a delete', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const content = { from: 'bag', bagId: on } as const
    const held = { phase: 'held', heldUntilMs: Infinity } as const
    const backup = await shop.put('f~', '', { content, replaces: [on], ...held })
    await shop.put('f', 'on')
    await shop.delete('f', [on], { supersedes: [backup] })
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ f: 'on' })
    expect(namesIn(shop)).toEqual(['f'])
  })

  it('stays when files of equal content change their names with each other', async () => {
    const shop = await openWorkshop()
    const a = await shop.given('a', 'same')
    const b = await shop.given('b', 'same')
    await shop.put('a', '', { content: { from: 'bag', bagId: b }, replaces: [b] })
    await shop.put('b', '', { content: { from: 'bag', bagId: a }, replaces: [a] })
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: 'same', b: 'same' })
    expect(namesIn(shop)).toEqual(['a', 'b'])
  })

  it('goes with what takes the place of that', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const again = await shop.put('f', 'on', { replaces: [on] })
    await shop.uploader.attempt(again)
    expect(putOf(shop, again).bagId).toBe(on)
    await shop.delete('f', [on], { supersedes: [again] })
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({})
  })
})

describe('a delete that the person lets go again', () => {
  const refused = {
    code: 'rejected',
    message: 'No.',
    atMs: 1,
    tries: 1,
    waitsForUser: true,
  } as const

  it('leaves a bag that was stored again until what takes its place is stored', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const gone = await shop.delete('f', [on], { failure: refused })
    const again = await store(shop, 'on')
    expect(again.bagId).toBe(on)
    const held = { phase: 'held', heldUntilMs: Infinity } as const
    const over = await shop.put('f', 'over', { supersedes: [again.id], ...held })
    await shop.outbox.update(gone, withoutFailure, { durable: false })
    await shop.uploader.attempt(gone)
    expect(await shop.service.contents()).toEqual({ f: 'on' })
    await shop.outbox.update(over, publish, { durable: false })
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ f: 'over' })
    expect(await shop.service.list()).toHaveLength(1)
  })

  it('leaves a bag that an older change was to take the place of', async () => {
    const shop = await openWorkshop()
    const on = await shop.given('f', 'on')
    const held = { phase: 'held', heldUntilMs: Infinity } as const
    const gone = await shop.delete('f', [on], { failure: refused })
    const first = await shop.put('f', 'first', { replaces: [on], ...held })
    const over = await shop.put('f', 'over', { supersedes: [first], ...held })
    await shop.outbox.update(gone, withoutFailure, { durable: false })
    await shop.uploader.attempt(gone)
    expect(await shop.service.contents()).toEqual({ f: 'on' })
    await shop.outbox.update(over, publish, { durable: false })
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ f: 'over' })
    expect(await shop.service.list()).toHaveLength(1)
  })
})
