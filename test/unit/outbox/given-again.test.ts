import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { toBagId, type BagId } from '../../../src/domain/ids.ts'
import { withoutClaim } from '../../../src/intents/claims.ts'
import { ofPut, seenUploaded } from '../../../src/intents/transitions.ts'
import { BUSY } from '../../support/uploads.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const DURABILITY = { durable: false }
const stop = new AbortController().signal

/** When the listing says that a bag was uploaded. */
function listedAtMs(shop: Workshop, bagId: BagId): number {
  return shop.listing.current()?.index.recordsOf(bagId)[0]?.uploadedAtMs ?? 0
}

it('a bag that later content was given stays when an older put of it is handed over', async () => {
  const shop = await openWorkshop()
  const bagId = await shop.given('doc', 'same')
  const stored = { bagId, phase: 'confirmed', confirmedAtMs: Date.now() } as const
  const older = await shop.put('doc', 'same', stored)
  await shop.put('doc', 'same', { ...stored, replacedAreDeleted: true })
  await shop.delete('doc~', [], { supersedes: [older] })
  expect(await shop.uploader.drain(stop)).toEqual([])
  expect(shop.outbox.get(older)).toBeUndefined()
  expect(await shop.service.contents()).toEqual({ doc: 'same' })
})

it('a bag that a delete has left meanwhile stays', async () => {
  const shop = await openWorkshop()
  const first = await shop.given('first', '1')
  // No listing has it yet, so nothing shows it.
  const second = toBagId(await shop.service.upload('second', '2'))
  const id = await shop.delete('first', [first, second])
  const begun = deferred()
  const mayGo = deferred()
  const before = (): Promise<void> => {
    begun.resolve()
    return mayGo.promise
  }
  shop.service.proxy.add({ match: { method: 'DELETE' }, times: 1, fault: { before } })
  const drained = shop.uploader.drain(stop)
  await begun.promise
  await shop.outbox.update(id, (latest) => withoutClaim(latest, second), DURABILITY)
  mayGo.resolve()
  expect(await drained).toEqual([])
  expect(await shop.service.contents()).toEqual({ second: '2' })
})

it('what a put takes the place of goes, also where its own bag was taken away by another change meanwhile', async () => {
  const shop = await openWorkshop()
  const first = await shop.given('first', '1')
  const second = await shop.given('second', '2')
  const bagId = await shop.given('doc', 'new')
  const [record] = shop.listing.current()?.index.recordsOf(bagId) ?? []
  if (record === undefined) throw new Error('Nothing is listed.')
  const long = Date.now() - 60_000
  const stored = { bagId, phase: 'confirmed', answeredAtMs: long, confirmedAtMs: long } as const
  const id = await shop.put('doc', 'new', { ...stored, replaces: [first, second] })
  const before = async (): Promise<void> => {
    const seen = { bagId, atMs: record.uploadedAtMs }
    await shop.outbox.update(
      id,
      ofPut((put) => seenUploaded(put, seen)),
      DURABILITY,
    )
    await shop.service.delete(bagId)
    await shop.listing.refreshNow()
  }
  shop.service.proxy.add({ match: { method: 'DELETE' }, times: 1, fault: { before } })
  expect(await shop.uploader.drain(stop)).toEqual([])
  expect(await shop.service.contents()).toEqual({})
})

it('a bag goes as the last of its changes had it, whichever of them is named first', async () => {
  const shop = await openWorkshop()
  const bagId = await shop.given('doc', 'same')
  const before = { bagId, atMs: Date.now() - 60_000 }
  const older = await shop.put('doc~', 'same', { replaces: [bagId], uploaded: [before] })
  const now = Date.now()
  const answered = { sentAtMs: now, answeredAtMs: now, confirmedAtMs: now, isAtRisk: true } as const
  const later = await shop.put('doc', 'same', { bagId, replaces: [bagId], ...answered })
  await shop.put('doc~', 'newer', { supersedes: [later, older] })
  expect(await shop.uploader.drain(stop)).toEqual([])
  expect(await shop.service.contents()).toEqual({ 'doc~': 'newer' })
})

it.each(['older', 'later'])(
  'a bag goes as the last of the changes that a put supersedes knew it, with the %s named first',
  async (first) => {
    const shop = await openWorkshop()
    const bagId = await shop.given('doc', 'same')
    const atMs = listedAtMs(shop, bagId)
    const knowing = (atMs: number) => ({ replaces: [bagId], uploaded: [{ bagId, atMs }] })
    const older = await shop.put('doc~', 'older', knowing(Date.now() - 60_000))
    const later = await shop.put('doc', 'later', knowing(atMs))
    const supersedes = first === 'older' ? [older, later] : [later, older]
    await shop.put('doc~', 'newest', { supersedes })
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ 'doc~': 'newest' })
  },
)

it.each(['knows of', 'takes what is listed of'])(
  'a bag that is left to a put goes with it as the change that left it %s its upload',
  async (how) => {
    const shop = await openWorkshop()
    const bagId = await shop.given('doc', 'same')
    const atMs = listedAtMs(shop, bagId)
    const heal = shop.service.proxy.add(BUSY)
    const before = { bagId, atMs: Date.now() - 60_000 }
    await shop.put('other', 'new', { replaces: [bagId], uploaded: [before] })
    const uploaded = [{ bagId, atMs }]
    // An own upload of a moment ago, which no listing has told of.
    if (how !== 'knows of') await shop.service.upload('doc', 'same')
    shop.service.forgetEvents()
    await shop.delete('doc', [bagId], how === 'knows of' ? { uploaded } : {})
    expect(await shop.uploader.drain(stop)).toHaveLength(1)
    expect(shop.service.deletes()).toBe(0)
    await shop.listing.refreshNow()
    heal()
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ other: 'new' })
  },
)

it('a bag that a put of before takes the place of goes where it knows of a later upload than others were given', async () => {
  const shop = await openWorkshop()
  const bagId = await shop.given('doc', 'same')
  const atMs = listedAtMs(shop, bagId)
  const older = await shop.put('doc~', 'older', { replaces: [bagId], uploaded: [{ bagId, atMs }] })
  const stored = { bagId, phase: 'confirmed', confirmedAtMs: Date.now() } as const
  await shop.put('doc', 'same', { ...stored, replacedAreDeleted: true, uploadedAtMs: atMs - 9_000 })
  await shop.delete('doc', [bagId], { phase: 'confirmed', confirmedAtMs: Date.now() })
  await shop.put('doc~', 'newest', { supersedes: [older] })
  expect(await shop.uploader.drain(stop)).toEqual([])
  expect(await shop.service.contents()).toEqual({ 'doc~': 'newest' })
})

it('a bag that is left to what takes the place of a put that was given it goes with that', async () => {
  const shop = await openWorkshop()
  const bagId = await shop.given('doc', 'same')
  const atMs = listedAtMs(shop, bagId)
  const heal = shop.service.proxy.add(BUSY)
  const now = Date.now()
  const times = { sentAtMs: now, answeredAtMs: now, confirmedAtMs: now }
  const older = await shop.put('doc', 'same', { bagId, ...times, isAtRisk: true })
  await shop.put('doc~', 'newest', { supersedes: [older] })
  const stored = {
    bagId,
    phase: 'confirmed',
    confirmedAtMs: now,
    replacedAreDeleted: true,
  } as const
  await shop.put('doc', 'same', { ...stored, uploadedAtMs: atMs })
  await shop.delete('doc', [bagId])
  expect(await shop.uploader.drain(stop)).toHaveLength(1)
  await shop.listing.refreshNow()
  heal()
  expect(await shop.uploader.drain(stop)).toEqual([])
  expect(await shop.service.contents()).toEqual({ 'doc~': 'newest' })
})

it('a bag that is left to a put stays where another machine stored it while the delete waited', async () => {
  const shop = await openWorkshop()
  const bagId = await shop.given('doc', 'same')
  const atMs = listedAtMs(shop, bagId)
  const heal = shop.service.proxy.add(BUSY)
  const uploaded = [{ bagId, atMs }]
  await shop.put('other', 'new', { replaces: [bagId], uploaded })
  await shop.service.upload('doc', 'same')
  await shop.delete('doc', [bagId], { createdAtMs: Date.now() - 60_000 })
  expect(await shop.uploader.drain(stop)).toHaveLength(1)
  await shop.listing.refreshNow()
  heal()
  expect(await shop.uploader.drain(stop)).toEqual([])
  expect(await shop.service.contents()).toEqual({ doc: 'same', other: 'new' })
})
