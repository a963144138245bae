import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import type { FaultRule } from '../../support/fault-proxy.ts'
import { putOf, requestedChanges } from './requested-changes.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const stop = new AbortController().signal
const PATIENT = { retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 }
const NO_BAG = toBagId('1'.repeat(64))

function answerOf(status: number, body: unknown): FaultRule['fault'] {
  const headers = { 'content-type': 'application/json' }
  return { answer: { status, headers, body: JSON.stringify(body) } }
}

/** The next upload is answered with this id, and nothing is stored. */
function answerOne({ service }: Workshop, bagId: string): void {
  const fault = answerOf(200, { bag_id: bagId })
  service.proxy.add({ match: { method: 'POST' }, times: 1, fault })
}

/** From now on no bag can be looked at, and no listing. */
function hideBags({ service }: Workshop): void {
  for (const path of [/download/, /files_list/]) {
    service.proxy.add({ match: { path }, fault: answerOf(500, { detail: 'Broken.' }) })
  }
}

async function attempted(shop: Workshop, name: string, content: string) {
  const id = await shop.put(name, content)
  await shop.uploader.attempt(id)
  await shop.uploader.finished(id)
  return id
}

describe('the id that an upload was answered with', () => {
  it('counts for nothing when no bag has it: the content is kept, and sent again', async () => {
    const shop = await openWorkshop(PATIENT)
    answerOne(shop, NO_BAG)
    const id = await attempted(shop, 'a', 'content')
    expect(putOf(shop, id)).toMatchObject({
      phase: 'waiting',
      failure: { code: 'bad-answer', waitsForUser: false },
    })
    expect(putOf(shop, id).bagId).toBeUndefined()
    expect(putOf(shop, id).confirmedAtMs).toBeUndefined()
    expect(shop.facts.get(NO_BAG)).toBeUndefined()
    expect(existsSync(shop.outbox.contentPath(id))).toBe(true)
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: 'content' })
  })

  it.each([false, true])(
    'is asked for three times where its bag holds something else, and then the change waits (replaces: %s)',
    async (isReplacing) => {
      const shop = await openWorkshop({ listingLagMs: 0 })
      const replaces = isReplacing ? [await shop.given('a', 'old')] : []
      let copies = 0
      const answer = { ...answerOf(200, {}).answer, status: 200, body: '' }
      const before = async () => {
        copies += 1
        const bagId = await shop.service.upload('a', `content, and ${copies} more`)
        answer.body = JSON.stringify({ bag_id: bagId })
      }
      shop.service.proxy.add({ match: { method: 'POST' }, fault: { before, answer } })
      const id = await shop.put('a', 'content', { replaces })
      shop.uploader.start()
      const failure = () => putOf(shop, id).failure
      await expect.poll(failure).toMatchObject({ code: 'rejected', waitsForUser: true })
      expect(copies).toBe(3)
      await shop.uploader.drain(stop)
      expect(copies).toBe(3)
      shop.service.proxy.clear()
      expect(existsSync(shop.outbox.contentPath(id))).toBe(true)
      await shop.uploader.retry(id)
      await expect.poll(() => putOf(shop, id).phase).toBe('confirmed')
    },
  )

  it('counts for nothing when its bag is of another length', async () => {
    const shop = await openWorkshop(PATIENT)
    const other = await shop.service.upload('other', 'other content')
    answerOne(shop, other)
    await attempted(shop, 'a', 'content')
    expect(shop.facts.get(toBagId(other))).toBeUndefined()
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: 'content', other: 'other content' })
  })

  it.each([
    ['with ranges', []],
    ['without ranges', [{ match: { path: /download/ }, fault: { noRanges: true } }]],
  ])('counts for nothing when its bag is as long and of other content (%s)', async (_, rules) => {
    const shop = await openWorkshop(PATIENT)
    for (const rule of rules) shop.service.proxy.add(rule)
    const old = await shop.given('a', 'old')
    const other = await shop.service.upload('other', 'x'.repeat(200_000))
    answerOne(shop, other)
    const content = 'n'.repeat(200_000)
    const id = await shop.put('a', content, { replaces: [old] })
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'bad-answer' })
    await shop.uploader.finished(id)
    expect(Object.keys(await shop.service.contents())).toEqual(['a', 'other'])
    expect(shop.facts.get(toBagId(other))).toBeUndefined()
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: content, other: 'x'.repeat(200_000) })
  })

  it('does not count twice', async () => {
    const shop = await openWorkshop(PATIENT)
    for (const name of ['a', 'b']) {
      answerOne(shop, NO_BAG)
      await attempted(shop, name, 'content')
    }
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: 'content', b: 'content' })
  })

  it('is proven for a step of a save that is sent before its time, too', async () => {
    const shop = await openWorkshop(PATIENT)
    const id = await shop.put('a.tmp', 'content', {
      phase: 'held',
      heldUntilMs: Date.now() + 3_600_000,
    })
    await shop.uploader.attempt(id)
    await shop.uploader.finished(id)
    expect(putOf(shop, id).phase).toBe('confirmed')
    expect(shop.service.uploads()).toEqual(['a.tmp'])
  })

  it('counts once a listing has it, whatever a download says', async () => {
    const shop = await openWorkshop(PATIENT)
    shop.service.proxy.add({ match: { path: /download/ }, fault: answerOf(404, { detail: 'No.' }) })
    const id = await attempted(shop, 'a', 'content')
    expect(putOf(shop, id).phase).toBe('confirmed')
    expect(shop.service.uploads()).toEqual(['a'])
  })

  it('is looked for until the service tells, also by the next process, and nothing is sent twice', async () => {
    const shop = await openWorkshop(PATIENT)
    hideBags(shop)
    const id = await attempted(shop, 'a', 'content')
    const { bagId, phase, failure } = putOf(shop, id)
    expect({ phase, code: failure?.code }).toEqual({ phase: 'waiting', code: 'server-error' })
    expect(putOf(shop, id).sentAtMs).toBeDefined()
    expect(bagId && shop.facts.get(bagId)).toBeUndefined()
    expect(existsSync(shop.outbox.contentPath(id))).toBe(true)
    const next = await shop.restart()
    expect(await next.uploader.drain(stop)).toMatchObject([{ name: 'a' }])
    next.service.proxy.clear()
    expect(await next.uploader.drain(stop)).toEqual([])
    expect(putOf(next, id)).toMatchObject({ phase: 'confirmed', bagId })
    expect(existsSync(next.outbox.contentPath(id))).toBe(false)
    expect(next.service.uploads()).toEqual(['a'])
  })

  it.each([
    ['of no bag', NO_BAG, ['POST upload', 'POST upload']],
    ['of its bag', undefined, ['POST upload', 'POST upload', 'DELETE']],
  ])('%s is proven before it is deleted for newer content', async (_, bagId, changes) => {
    const shop = await openWorkshop(PATIENT)
    hideBags(shop)
    if (bagId !== undefined) answerOne(shop, bagId)
    const id = await attempted(shop, 'a', 'first')
    await shop.put('a', 'second', { supersedes: [id] })
    shop.service.proxy.clear()
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: 'second' })
    expect(requestedChanges(shop)).toEqual(changes)
  })
})
