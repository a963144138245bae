import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { toBagId, type IntentId } from '../../../src/domain/ids.ts'
import { publish } from '../../../src/intents/transitions.ts'
import { discardIntents } from '../../../src/outbox/discard.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const stop = new AbortController().signal

async function carryOut({ uploader }: Workshop, id: IntentId): Promise<void> {
  await uploader.attempt(id)
  await uploader.finished(id)
}

/** Resolves when each listing is sure to have what was stored so far. */
async function untilLagIsOver({ listing }: Workshop): Promise<void> {
  const sureAtMs = Date.now() + 800
  await expect
    .poll(async () => (await listing.refreshNow()).startedAtMs, { timeout: 10_000 })
    .toBeGreaterThan(sureAtMs)
}

describe('the old place of content that moved', () => {
  it('keeps its bag when the new place is in a damaged intent', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('old', 'content')
    const moved = await shop.put('new', 'content')
    const after = [{ id: moved }]
    const gone = await shop.delete('old', [old], { after })
    const other = await shop.put('other', 'over', { replaces: [old], after })
    writeFileSync(join(shop.outbox.directory(moved), 'intent.json'), 'damaged')
    const next = await shop.restart()
    expect(await stored(next, gone, other)).toEqual({ old: 'content', other: 'over' })
    // Also when the damaged intent was set aside by an earlier mount.
    expect(await stored(await next.restart(), gone, other)).toEqual({
      old: 'content',
      other: 'over',
    })
  })

  it('keeps its bag when a discard of the move is killed in the middle', async () => {
    let isKilled = true
    const shop = await openWorkshop({
      onStep: (step) => {
        if (isKilled && step === 'remove.unlinked') throw new Error('killed')
      },
    })
    const old = await shop.given('old', 'content')
    const moved = await shop.put('new', 'content')
    await shop.delete('old', [old], { after: [{ id: moved }] })
    await expect(discardIntents(shop.outbox, [moved])).rejects.toThrow()
    isKilled = false
    const next = await shop.restart()
    await next.uploader.drain(stop)
    expect(Object.keys(await next.service.contents())).toContain('old')
  })

  it.each([true, false])(
    'goes also when what took its place there (listed: %s) was replaced here in turn',
    async (isListed) => {
      const shop = await openWorkshop({ listingLagMs: 1 })
      const old = await shop.given('old', 'content')
      const moved = await shop.put('new', 'content', { phase: 'held', heldUntilMs: Infinity })
      const over = await shop.put('old', 'over', { replaces: [old], after: [{ id: moved }] })
      await carryOut(shop, over)
      const { bagId } = shop.outbox.put(over) ?? {}
      if (bagId === undefined) throw new Error('It was not stored.')
      if (isListed) await shop.listing.refreshNow()
      await carryOut(shop, await shop.put('old', 'over that', { replaces: [bagId] }))
      await shop.listing.refreshNow()
      expect((await shop.service.list()).map(({ bag_id }) => bag_id)).toContain(old)
      await shop.outbox.update(moved, publish, { durable: false })
      await shop.uploader.drain(stop)
      expect(await shop.service.contents()).toEqual({ new: 'content', old: 'over that' })
    },
  )

  it('is decided on in bounded time after the clock was set back', async () => {
    const shop = await openWorkshop({ listingLagMs: 8 })
    const given = await shop.given('old', 'over')
    const old = await shop.given('old', 'content')
    const over = await shop.put('old', 'over', {
      ...{ phase: 'confirmed', bagId: given, confirmedAtMs: Date.now() + 1e9, replaces: [old] },
    })
    await shop.uploader.attemptRest(over)
    expect(shop.outbox.get(over)).toMatchObject({ replacedAreDeleted: true })
    // It may be another machine's.
    expect((await shop.service.list()).map(({ bag_id }) => bag_id)).toContain(old)
  })

  it('goes also when that was replaced before any listing had it', async () => {
    const shop = await openWorkshop({ listingLagMs: 800 })
    const old = await shop.given('old', 'content')
    const moved = await shop.put('new', 'content', { phase: 'held', heldUntilMs: Infinity })
    const over = await shop.put('old', 'over', { replaces: [old], after: [{ id: moved }] })
    const { proxy } = shop.service
    const headers = { 'content-type': 'application/json' }
    const answer = { status: 200, headers, body: JSON.stringify(await shop.service.list()) }
    const late = { match: { path: /files_list/ }, fault: { answer } }
    proxy.add(late)
    await carryOut(shop, over)
    const { bagId } = shop.outbox.put(over) ?? {}
    if (bagId === undefined) throw new Error('It was not stored.')
    proxy.clear()
    proxy.add({ ...late, times: 2 })
    await carryOut(shop, await shop.put('old', 'over that', { replaces: [bagId] }))
    await shop.listing.refreshNow()
    expect(shop.service.deletes()).toBe(1)
    await shop.outbox.update(moved, publish, { durable: false })
    await untilLagIsOver(shop)
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ new: 'content', old: 'over that' })
  })

  it('goes also when a late listing has an earlier bag of the same id', async () => {
    const shop = await openWorkshop({ listingLagMs: 800 })
    await carryOut(shop, await shop.put('old', 'over'))
    const [first] = await shop.service.list()
    const answer = {
      ...{ status: 200, headers: { 'content-type': 'application/json' } },
      body: JSON.stringify([first]),
    }
    const late = { match: { path: /files_list/ }, fault: { answer } }
    await carryOut(shop, await shop.delete('old', [toBagId(first?.bag_id ?? '')]))
    const old = await shop.given('old', 'content')
    const moved = await shop.put('new', 'content', { phase: 'held', heldUntilMs: Infinity })
    const { proxy } = shop.service
    proxy.add(late)
    await shop.listing.refreshNow()
    const over = await shop.put('old', 'over', { replaces: [old], after: [{ id: moved }] })
    await carryOut(shop, over)
    const { bagId } = shop.outbox.put(over) ?? {}
    if (bagId === undefined) throw new Error('It was not stored.')
    expect(bagId).toBe(first?.bag_id)
    proxy.clear()
    proxy.add({ ...late, times: 2 })
    await carryOut(shop, await shop.put('old', 'over that', { replaces: [bagId] }))
    proxy.clear()
    await shop.outbox.update(moved, publish, { durable: false })
    await untilLagIsOver(shop)
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ new: 'content', old: 'over that' })
  })

  it('waits for what took the place of the new one', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('old', 'content')
    const moved = await shop.put('new', 'content', { phase: 'held', heldUntilMs: Infinity })
    const held = { phase: 'held', heldUntilMs: Infinity, supersedes: [moved] } as const
    const next = await shop.put('new', 'next', held)
    const over = await shop.put('old', 'over', { replaces: [old], after: [{ id: moved }] })
    await shop.outbox.remove(moved)
    await carryOut(shop, over)
    expect(shop.outbox.get(over)).toMatchObject({ phase: 'confirmed', after: [{ id: moved }] })
    expect(shop.outbox.get(over)?.failure).toBeUndefined()
    await shop.outbox.update(next, publish, { durable: false })
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ new: 'next', old: 'over' })
  })

  it('is told to the successor of a put, though both take the place of the same bags', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('old', 'content')
    const moved = await shop.put('new', 'content', { phase: 'held', heldUntilMs: Infinity })
    const first = await shop.put('old', 'first', { replaces: [old], after: [{ id: moved }] })
    const second = await shop.put('old', 'second', { replaces: [old], supersedes: [first] })
    await shop.uploader.attempt(second)
    await shop.uploader.finished(second)
    expect(shop.outbox.get(second)).toMatchObject({ phase: 'confirmed', after: [{ id: moved }] })
    expect(shop.service.deletes()).toBe(0)
  })
})

/** What is at the service once all that can be done is done; both changes wait for the person. */
async function stored(
  shop: Workshop,
  ...ids: readonly IntentId[]
): Promise<Readonly<Record<string, string>>> {
  await shop.uploader.drain(stop)
  for (const id of ids) {
    expect(shop.outbox.get(id)?.failure).toMatchObject({ code: 'not-found', waitsForUser: true })
  }
  expect(shop.outbox.damaged()).toHaveLength(1)
  return shop.service.contents()
}
