import { expect, it, vi } from 'vitest'
import type { BagId, IntentId } from '../../../src/domain/ids.ts'
import { publish } from '../../../src/intents/transitions.ts'
import { buildTree, type ListingIndex } from '../../../src/namespace/tree.ts'
import { requestedChanges } from './requested-changes.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

vi.setConfig({ testTimeout: 60_000 })
const stop = new AbortController().signal

const stored = async (shop: Workshop, id: IntentId): Promise<BagId> => {
  await shop.uploader.attempt(id)
  await shop.uploader.finished(id)
  const intent = shop.outbox.get(id)
  if (intent?.kind !== 'put' || intent.bagId === undefined) throw new Error('It is not stored.')
  return intent.bagId
}
const shownNames = (shop: Workshop, index?: ListingIndex): readonly string[] =>
  [...buildTree(index, shop.outbox.intents()).entries()].map(({ shown }) => shown)

it.each(['an older change', 'the listing', 'a listing that is late'])(
  'brings back nothing that only %s still has when stored content gives way',
  async (who) => {
    const isLate = who === 'a listing that is late'
    const shop = await openWorkshop({ listingLagMs: isLate ? 60_000 : 0 })
    const isListed = who !== 'an older change'
    const old = isListed
      ? await shop.given('a.txt', 'first')
      : await stored(shop, await shop.put('a.txt', 'first'))
    const second = await shop.put('a.txt', 'second', { replaces: [old] })
    await stored(shop, second)
    const index = shop.listing.current()?.index
    if (isLate) await shop.listing.refreshNow()
    await stored(shop, await shop.put('a.txt', 'third', { supersedes: [second] }))
    expect(shop.outbox.get(second)).toBeUndefined()
    expect(shownNames(shop, index)).toEqual(['a.txt'])
  },
)

it('shows content that was stored once more when what had replaced it gives way', async () => {
  const shop = await openWorkshop()
  const old = await shop.given('a.txt', 'same')
  const second = await shop.put('a.txt', 'second', { replaces: [old] })
  await stored(shop, second)
  const done = {
    phase: 'confirmed',
    confirmedAtMs: Date.now(),
    replacedAreDeleted: true,
  } as const
  await shop.put('b.txt', 'same', { ...done, bagId: old })
  await stored(shop, await shop.put('a.txt', 'third', { supersedes: [second] }))
  expect([...shownNames(shop)].sort()).toEqual(['a.txt', 'b.txt'])
})

it('leaves no bag behind when new content comes between two deletes of the content before', async () => {
  const shop = await openWorkshop()
  const olds = [await shop.given('a', 'old'), await shop.given('a', 'older')]
  const first = await shop.put('a', 'first', { replaces: olds })
  shop.service.proxy.add({
    match: { method: 'DELETE' },
    times: 1,
    fault: { answerLatencyMs: 500 },
  })
  await shop.uploader.attempt(first)
  await expect.poll(() => requestedChanges(shop)).toEqual(['POST upload', 'DELETE'])
  const held = { phase: 'held', heldUntilMs: Infinity } as const
  const second = await shop.put('a', 'second', { supersedes: [first], ...held })
  await shop.uploader.finished(first)
  await shop.outbox.update(second, publish, { durable: false })
  await shop.uploader.drain(stop)
  expect(await shop.service.contents()).toEqual({ a: 'second' })
  const DELETES = Array.from({ length: 3 }, () => 'DELETE')
  const changes = requestedChanges(shop)
  expect(changes.filter((change) => change === 'DELETE')).toEqual(DELETES)
})
