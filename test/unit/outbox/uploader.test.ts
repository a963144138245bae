import { describe, expect, it, vi } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import type { Intent } from '../../../src/intents/intent.ts'
import { buildTree } from '../../../src/namespace/tree.ts'
import { putOf, requestedChanges } from './requested-changes.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const stop = new AbortController().signal

/** No try in the background comes between two steps of a test. */
const PATIENT = { retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 }

vi.setConfig({ testTimeout: 60_000 })

describe('sending', () => {
  it('puts content under its name, once, and learns the sum of what it sent', async () => {
    const shop = await openWorkshop()
    const id = await shop.put('a.txt', 'hello')
    await shop.uploader.attempt(id)
    await shop.uploader.attempt(id)
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ 'a.txt': 'hello' })
    expect(shop.service.uploads()).toEqual(['a.txt'])
    const { bagId } = putOf(shop, id)
    expect(bagId && shop.facts.get(bagId)).toMatchObject({ kind: 'file', length: 5 })
  })

  it('keeps the mode and the time that are set while it is sent', async () => {
    const set = { mode: 0o600, mtimeMs: 1_609_556_645_000 }
    const updates: Promise<unknown>[] = []
    const shop = await openWorkshop({
      onStep: (step) => {
        if (step !== 'upload.begin') return
        updates.push(shop.outbox.update(id, (put) => ({ ...put, ...set }), { durable: false }))
      },
    })
    const id = await shop.put('a.txt', 'hello')
    await shop.uploader.attempt(id)
    await shop.uploader.finished(id)
    await Promise.all(updates)
    const { bagId } = putOf(shop, id)
    expect(bagId && shop.facts.get(bagId)).toMatchObject(set)
  })

  it('deletes what is replaced only after the new content is confirmed', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('a.txt', 'old')
    await shop.put('a.txt', 'new', { replaces: [old] })
    shop.uploader.start()
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ 'a.txt': 'new' })
    expect(requestedChanges(shop)).toEqual(['POST upload', 'DELETE'])
  })

  it.each(['content', 'delete'])(
    'brings nothing back when stored content gives way to a %s',
    async (kind) => {
      const shop = await openWorkshop()
      const store = async (id: Intent['id']): Promise<void> => {
        await shop.uploader.attempt(id)
        await shop.uploader.finished(id)
      }
      const first = await shop.put('a.txt', 'first')
      await store(first)
      const replaces = [putOf(shop, first).bagId].filter((bagId) => bagId !== undefined)
      const second = await shop.put('a.txt', 'second', { replaces })
      await store(second)
      const base = { supersedes: [second] }
      await store(
        kind === 'content'
          ? await shop.put('a.txt', 'third', base)
          : await shop.delete('a.txt', [], base),
      )
      expect(shop.outbox.get(second)).toBeUndefined()
      const shown = [...buildTree(undefined, shop.outbox.intents()).entries()]
      expect(shown.map((entry) => entry.shown)).toEqual(kind === 'content' ? ['a.txt'] : [])
      expect(requestedChanges(shop).filter((change) => change === 'DELETE')).toHaveLength(2)
    },
  )

  it.each(['put', 'delete'])(
    'deletes what a finished %s superseded, when a kill left it',
    async (kind) => {
      const shop = await openWorkshop()
      const [temp, bagId] = [await shop.given('temp', 'temp'), await shop.given('a.txt', 'new')]
      const done = { phase: 'confirmed', confirmedAtMs: Date.now() } as const
      const superseded = await shop.put('temp', 'temp', { ...done, bagId: temp })
      const supersedes = [superseded]
      if (kind === 'delete') await shop.delete('a.txt', [], { ...done, supersedes })
      else await shop.put('a.txt', 'new', { ...done, bagId, supersedes, replacedAreDeleted: true })
      const next = await shop.restart()
      await next.uploader.drain(stop)
      expect(await next.service.contents()).toEqual({ 'a.txt': 'new' })
      expect(next.outbox.get(superseded)).toBeUndefined()
    },
  )

  it('is no missing file when the service knows no uploads', async () => {
    const shop = await openWorkshop(PATIENT)
    shop.service.proxy.add({ match: { method: 'POST' }, fault: { answer: { status: 404 } } })
    const id = await shop.put('a.txt', 'new')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({
      code: 'bad-answer',
      facts: { status: 404 },
    })
    await shop.uploader.finished(id)
    expect(putOf(shop, id).failure).toMatchObject({ code: 'bad-answer', waitsForUser: false })
  })

  it('keeps the old bag while the new content is not taken', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('a.txt', 'old')
    shop.service.proxy.add({ match: { method: 'POST' }, fault: { answer: { status: 503 } } })
    await shop.put('a.txt', 'new', { replaces: [old] })
    const left = await shop.uploader.drain(stop)
    expect(left).toMatchObject([{ name: 'a.txt', failure: { code: 'unavailable' } }])
    expect(await shop.service.contents()).toEqual({ 'a.txt': 'old' })
    expect(requestedChanges(shop)).not.toContain('DELETE')
  })

  it('sends a renamed bag under its new name, then deletes the old one', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('old name', 'content')
    await shop.put('new name', '', { content: { from: 'bag', bagId }, replaces: [bagId] })
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ 'new name': 'content' })
    expect(requestedChanges(shop)).toEqual(['POST upload', 'DELETE'])
  })

  it('has the name that it was given while its try began', async () => {
    const shop = await openWorkshop()
    const id = await shop.put('first name', 'content')
    const renaming = shop.outbox.update(id, (put) => ({ ...put, name: 'last name' }), {
      durable: false,
    })
    await Promise.all([renaming, shop.uploader.attempt(id)])
    expect(await shop.service.contents()).toEqual({ 'last name': 'content' })
    expect(shop.service.uploads()).toEqual(['last name'])
  })

  it('does not delete a bag that another rename still has to read', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('a', 'content')
    shop.service.proxy.add({
      match: { method: 'POST' },
      skip: 1,
      times: 1,
      fault: { answer: { status: 503 } },
    })
    await shop.put('b', 'other', { replaces: [bagId] })
    await shop.put('c', '', { content: { from: 'bag', bagId } })
    await shop.uploader.drain(stop)
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ b: 'other', c: 'content' })
  })

  it('deletes a bag once what still had to read it is stored', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('a', 'content')
    const held = { phase: 'held', heldUntilMs: Infinity } as const
    await shop.put('c', '', { content: { from: 'bag', bagId }, ...held })
    const other = await shop.put('b', 'other', { replaces: [bagId] })
    await shop.uploader.attempt(other)
    await shop.uploader.finished(other)
    expect(await shop.service.contents()).toEqual({ a: 'content', b: 'other' })
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ b: 'other', c: 'content' })
  })

  it('deletes nothing that an entry shows again', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('a', 'same')
    // The same content under the same name: the service answers with the id of the old bag.
    const id = await shop.put('a', 'same', { replaces: [bagId] })
    await shop.uploader.drain(stop)
    expect(putOf(shop, id).bagId).toBe(bagId)
    expect(await shop.service.contents()).toEqual({ a: 'same' })
    expect(requestedChanges(shop)).toEqual(['POST upload'])
  })

  it('a DELETE does not overtake an upload that is given the same bag', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('a', 'same')
    // mv a b; then the same content is written to a again: its upload is given the bag that b deletes.
    const moved = await shop.put('b', '', { content: { from: 'bag', bagId }, replaces: [bagId] })
    const again = await shop.put('a', 'same')
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answerLatencyMs: 1_000 },
    })
    const sending = shop.uploader.attempt(again)
    await expect.poll(() => shop.service.uploads()).toEqual(['a'])
    await shop.uploader.attempt(moved)
    await sending
    await shop.uploader.drain(stop)
    expect(putOf(shop, again).bagId).toBe(bagId)
    expect(await shop.service.contents()).toEqual({ a: 'same', b: 'same' })
  })

  it('carries out changes of one name in their order', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('a', 'first')
    await shop.delete('a', [bagId])
    const second = await shop.put('a', 'second')
    await shop.uploader.attempt(second)
    expect(requestedChanges(shop)).toEqual(['DELETE', 'POST upload'])
    expect(await shop.service.contents()).toEqual({ a: 'second' })
  })

  it('waits with a delete that may be the first half of a replacement', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('a', 'content')
    const heldUntilMs = Date.now() + 300
    const id = await shop.delete('a', [bagId], { phase: 'held', heldUntilMs })
    shop.uploader.start()
    await expect.poll(() => shop.outbox.get(id)?.phase).toBe('confirmed')
    expect(Date.now()).toBeGreaterThanOrEqual(heldUntilMs)
    expect(await shop.service.contents()).toEqual({})
  })

  it('holds steps of a save back until they are due', async () => {
    const shop = await openWorkshop()
    const heldUntilMs = Date.now() + 300
    const id = await shop.put('a.tmp', 'content', { phase: 'held', heldUntilMs })
    shop.uploader.start()
    await expect.poll(() => shop.outbox.get(id)?.phase).toBe('confirmed')
    expect(Date.now()).toBeGreaterThanOrEqual(heldUntilMs)
  })

  it('never sends what stays on this machine', async () => {
    const shop = await openWorkshop()
    await shop.put('.DS_Store', 'junk', { phase: 'local' })
    await shop.put('a', 'content')
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ a: 'content' })
  })
})

describe('content that was replaced before it was sent', () => {
  it('is not sent, and what it had to delete is deleted by its successor', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('a', 'old')
    const first = await shop.put('a', 'first', { replaces: [old] })
    const second = await shop.put('a', 'second', { supersedes: [first] })
    await shop.uploader.absorb(second)
    expect(shop.outbox.get(first)).toBeUndefined()
    expect(putOf(shop, second).replaces).toEqual([old])
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ a: 'second' })
    expect(shop.service.uploads()).toEqual(['a'])
  })

  it('is deleted after it when it was on its way already', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('a', 'old')
    const first = await shop.put('a', 'first', { replaces: [old] })
    shop.service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { latencyMs: 200 } })
    const closed = shop.uploader.attempt(first)
    const second = await shop.put('a', 'second', { supersedes: [first] })
    await shop.uploader.absorb(second)
    await closed
    await shop.uploader.drain(stop)
    expect(shop.outbox.get(first)).toBeUndefined()
    expect(await shop.service.contents()).toEqual({ a: 'second' })
    expect(requestedChanges(shop)).toEqual(['POST upload', 'POST upload', 'DELETE', 'DELETE'])
  })

  it('counts as sent when its successor is', async () => {
    const shop = await openWorkshop()
    const first = await shop.put('a', 'first')
    await shop.put('a', 'second', { supersedes: [first] })
    await shop.uploader.attempt(first)
    expect(await shop.service.contents()).toEqual({ a: 'second' })
    expect(shop.service.uploads()).toEqual(['a'])
  })

  it('leaves no bag behind when its successor was finished first', async () => {
    const shop = await openWorkshop()
    const second = await shop.put('b', 'second')
    await shop.uploader.drain(stop)
    const first = await shop.put('a', 'first')
    await shop.uploader.drain(stop)
    // A late handover: the successor has something left to do again.
    await shop.outbox.update(second, (intent) => ({ ...intent, supersedes: [first] }), {
      durable: false,
    })
    await shop.uploader.absorb(second)
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ b: 'second' })
  })
})

describe('failures', () => {
  it('attempt rejects with the first failure, and the background goes on', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 2,
      fault: { answer: { status: 503 } },
    })
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'unavailable' })
    await expect.poll(() => shop.outbox.get(id)?.phase).toBe('confirmed')
    expect(putOf(shop, id).failure).toBeUndefined()
    expect(await shop.service.contents()).toEqual({ a: 'content' })
  })

  it.each([
    { status: 422, code: 'rejected', times: 1 },
    // The first may have been for want of room, so it is sent once more.
    { status: 413, code: 'too-large', times: 2 },
  ])('$status waits for the user, and is tried again when asked to', async (refusal) => {
    const { status, code, times } = refusal
    const shop = await openWorkshop()
    shop.service.proxy.add({ match: { method: 'POST' }, times, fault: { answer: { status } } })
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code })
    expect(putOf(shop, id).failure).toMatchObject({ code, tries: 1, waitsForUser: true })
    shop.uploader.serviceIsBack()
    expect(await shop.uploader.drain(stop)).toHaveLength(1)
    expect(requestedChanges(shop)).toHaveLength(times)
    await shop.uploader.retry(id)
    await expect.poll(() => shop.outbox.get(id)?.phase).toBe('confirmed')
  })

  it('a rename of a bag that is gone at the service waits for the user, who can try again', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('old name', 'content')
    await shop.service.delete(bagId)
    await shop.put('new name', '', { content: { from: 'bag', bagId }, replaces: [bagId] })
    const [left] = await shop.uploader.drain(stop)
    expect(left?.failure).toMatchObject({
      code: 'not-found',
      message: 'Its content is gone at the service, so it cannot be stored under another name.',
      waitsForUser: true,
    })
    await shop.service.upload('old name', 'content')
    await shop.uploader.retry(left?.id ?? shop.outbox.nextId())
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ 'new name': 'content' })
  })

  it('what failed for want of the service is sent as soon as that is back, what it put off is not', async () => {
    const shop = await openWorkshop(PATIENT)
    const { proxy } = shop.service
    const headers = { 'retry-after': '3600' }
    proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answer: { status: 503, headers } },
    })
    const later = await shop.put('later', 'content')
    await expect(shop.uploader.attempt(later)).rejects.toMatchObject({ code: 'unavailable' })
    await proxy.down()
    const soon = await shop.put('soon', 'content')
    await expect(shop.uploader.attempt(soon)).rejects.toMatchObject({ code: 'unavailable' })
    await proxy.up()
    await expect.poll(() => shop.uploader.nextTryAtMs(soon)).toBeGreaterThan(Date.now())
    shop.uploader.serviceIsBack()
    await expect.poll(() => shop.outbox.get(soon)?.phase).toBe('confirmed')
    expect(shop.outbox.get(later)?.phase).toBe('waiting')
    expect(shop.service.uploads()).toEqual(['soon'])
  })

  it('what waits for the user does not hold up later changes of the name', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answer: { status: 422 } },
    })
    const first = await shop.put('a', 'refused')
    await expect(shop.uploader.attempt(first)).rejects.toMatchObject({ code: 'rejected' })
    const second = await shop.put('a', 'taken')
    await shop.uploader.attempt(second)
    expect(await shop.service.contents()).toEqual({ a: 'taken' })
  })

  it('leaves the service alone for as long as it asked', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answer: { status: 429, headers: { 'retry-after': '1' } } },
    })
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'rate-limited' })
    const failedAtMs = putOf(shop, id).failure?.atMs ?? Infinity
    await expect.poll(() => shop.outbox.get(id)?.phase).toBe('confirmed')
    expect(putOf(shop, id).sentAtMs).toBeGreaterThanOrEqual(failedAtMs + 1_000)
  })

  it('a DELETE that failed is made again, and nothing is uploaded for it', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('a', 'old')
    shop.service.proxy.add({ match: { method: 'DELETE' }, times: 2, fault: { loseAnswer: true } })
    const id = await shop.put('a', 'new', { replaces: [old] })
    await shop.uploader.attempt(id)
    await expect.poll(() => putOf(shop, id).replacedAreDeleted).toBe(true)
    expect(await shop.service.contents()).toEqual({ a: 'new' })
    expect(shop.service.uploads()).toEqual(['a'])
  })

  it('a change that is taken back while it is sent disturbs nobody', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { latencyMs: 100 } })
    const id = await shop.put('a', 'content')
    const attempt = shop.uploader.attempt(id)
    await shop.outbox.remove(id)
    await attempt.catch(() => undefined)
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(shop.outbox.intents()).toEqual([])
  })
})

describe('leaving', () => {
  it('ends although the service is down, and tells what waits and why', async () => {
    const shop = await openWorkshop()
    const bagId = await shop.given('gone', 'content')
    await shop.service.proxy.down()
    await shop.put('a', 'first')
    await shop.put('a', 'second')
    await shop.delete('gone', [bagId])
    await shop.put('gone', 'again')
    const left = await shop.uploader.drain(stop)
    expect(left.map(({ name }) => name)).toEqual(['a', 'a', 'gone', 'gone'])
    expect(left[0]?.failure).toMatchObject({ code: 'unavailable', tries: 1 })
    expect(left[2]?.failure).toMatchObject({ code: 'unavailable', tries: 1 })
  })

  it('ends although something waits for the user', async () => {
    const shop = await openWorkshop()
    const failure = {
      code: 'rejected',
      message: '',
      atMs: 1,
      tries: 1,
      waitsForUser: true,
    } as const
    const first = await shop.put('a', 'refused', { failure })
    await shop.put('b', 'content', { supersedes: [] })
    expect((await shop.uploader.drain(stop)).map(({ id }) => id)).toEqual([first])
  })

  it('ends although a successor fails, and what it has not taken over yet waits with it', async () => {
    const shop = await openWorkshop(PATIENT)
    shop.service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { loseAnswer: true } })
    const first = await shop.put('a', 'first')
    await expect(shop.uploader.attempt(first)).rejects.toMatchObject({
      facts: { answerLost: true },
    })
    await shop.service.proxy.down()
    const second = await shop.put('b', 'second', { supersedes: [first] })
    const left = await shop.uploader.drain(stop)
    expect(left.map(({ id }) => id)).toEqual([first, second])
  })

  it('sends held content too', async () => {
    const shop = await openWorkshop()
    await shop.put('a.tmp', 'content', { phase: 'held', heldUntilMs: Date.now() + 60_000 })
    expect(await shop.uploader.drain(stop)).toEqual([])
    expect(await shop.service.contents()).toEqual({ 'a.tmp': 'content' })
  })

  it('sends hundreds of files, each once, no more at a time than it may', async () => {
    const shop = await openWorkshop({ concurrency: 3 })
    const names = Array.from({ length: 300 }, (_, index) => `file ${index}`)
    let most = 0
    for (const name of names) await shop.put(name, name)
    const watch = shop.outbox.onChange(() => {
      most = Math.max(most, shop.uploader.progress().length)
    })
    expect(await shop.uploader.drain(stop)).toEqual([])
    watch()
    expect([...shop.service.uploads()].sort()).toEqual([...names].sort())
    expect(most).toBeLessThanOrEqual(3)
  })

  it('an upload that is broken off is neither lost nor repeated', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { loseAnswer: true, latencyMs: 0 },
    })
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ facts: { answerLost: true } })
    const next = await shop.restart()
    next.uploader.start()
    await expect.poll(() => next.outbox.get(id)?.phase).toBe('confirmed')
    expect(next.service.uploads()).toEqual(['a'])
  })

  it('after the end, attempt is refused', async () => {
    const shop = await openWorkshop()
    const id = await shop.put('a', 'content')
    await shop.uploader.close()
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'interrupted' })
    expect(requestedChanges(shop)).toEqual([])
  })
})

describe('an upload whose answer was lost', () => {
  const loseOne = ({ service }: Workshop): void => {
    service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { loseAnswer: true } })
  }

  it('is found in the listing and not sent again', async () => {
    const shop = await openWorkshop()
    loseOne(shop)
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ facts: { answerLost: true } })
    await shop.uploader.drain(stop)
    expect(putOf(shop, id)).toMatchObject({ phase: 'confirmed' })
    expect(shop.service.uploads()).toEqual(['a'])
    expect(await shop.service.contents()).toEqual({ a: 'content' })
  })

  it('is waited for when the listing lags', async () => {
    const shop = await openWorkshop({ listingLagMs: 2_000 })
    loseOne(shop)
    shop.service.proxy.add({
      match: { path: /files_list/ },
      times: 2,
      fault: {
        answer: { status: 200, headers: { 'content-type': 'application/json' }, body: '[]' },
      },
    })
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ facts: { answerLost: true } })
    await shop.uploader.drain(stop)
    expect(putOf(shop, id)).toMatchObject({ phase: 'confirmed' })
    expect(shop.service.uploads()).toEqual(['a'])
  })

  it('is sent again when it did not arrive', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answer: { status: 500 } },
    })
    await shop.put('a', 'content')
    await shop.uploader.drain(stop)
    await shop.uploader.drain(stop)
    expect(shop.service.uploads()).toEqual(['a'])
    expect(requestedChanges(shop)).toEqual(['POST upload', 'POST upload'])
  })

  it('keeps what another client uploads under the same name meanwhile', async () => {
    const shop = await openWorkshop(PATIENT)
    loseOne(shop)
    const id = await shop.put('a', 'ours!')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ facts: { answerLost: true } })
    const theirs = await shop.service.upload('a', 'their')
    await shop.uploader.drain(stop)
    const records = await shop.service.list()
    expect(records).toHaveLength(2)
    expect(putOf(shop, id).bagId).not.toBe(theirs)
    expect(shop.service.uploads().filter((name) => name === 'a')).toHaveLength(2)
  })

  it('is not mistaken for a bag of that name and content that was there before', async () => {
    const shop = await openWorkshop()
    const before = toBagId(await shop.service.upload('a', 'same', 'of somebody else'))
    await shop.listing.refreshNow()
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answer: { status: 500 } },
    })
    const id = await shop.put('a', 'same', { namesakes: [before] })
    await shop.uploader.drain(stop)
    await shop.uploader.drain(stop)
    expect(putOf(shop, id).bagId).not.toBe(before)
    expect(await shop.service.list()).toHaveLength(2)
  })

  it('is not mistaken for a bag that we are about to delete', async () => {
    const shop = await openWorkshop()
    const old = await shop.given('a', 'same')
    await shop.delete('b', [old], { phase: 'held', heldUntilMs: Date.now() + 60_000 })
    shop.service.proxy.add({
      match: { method: 'POST' },
      times: 1,
      fault: { answer: { status: 500 } },
    })
    const id = await shop.put('a', 'same')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'server-error' })
    await expect.poll(() => putOf(shop, id).phase).toBe('confirmed')
    expect(requestedChanges(shop)).toEqual(['POST upload', 'POST upload'])
  })

  it('is deleted when its content was replaced meanwhile', async () => {
    const shop = await openWorkshop(PATIENT)
    loseOne(shop)
    const first = await shop.put('a', 'first', { sentAtMs: Date.now() })
    await expect(shop.uploader.attempt(first)).rejects.toMatchObject({
      facts: { answerLost: true },
    })
    const second = await shop.put('b', 'second', { supersedes: [first] })
    await shop.uploader.absorb(second)
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ b: 'second' })
    expect(shop.outbox.get(first)).toBeUndefined()
  })

  it('is not brought back when its successor is replaced too', async () => {
    const shop = await openWorkshop(PATIENT)
    loseOne(shop)
    const first = await shop.put('a', 'first')
    await expect(shop.uploader.attempt(first)).rejects.toMatchObject({
      facts: { answerLost: true },
    })
    const second = await shop.put('a', 'second', { supersedes: [first] })
    await shop.uploader.absorb(second)
    const third = await shop.put('a', 'third', { supersedes: [second] })
    await shop.uploader.absorb(third)
    expect(shop.outbox.get(second)).toBeUndefined()
    expect(putOf(shop, third).supersedes).toContain(first)
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ a: 'third' })
    expect(shop.outbox.intents()).toHaveLength(1)
  })

  it('is looked for by the next process too', async () => {
    const shop = await openWorkshop()
    loseOne(shop)
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ facts: { answerLost: true } })
    const next = await shop.restart()
    await next.uploader.attempt(id)
    expect(next.service.uploads()).toEqual(['a'])
  })

  it('is not looked for when it certainly did not arrive', async () => {
    const shop = await openWorkshop()
    await shop.service.proxy.down()
    const id = await shop.put('a', 'content', { sentAtMs: Date.now() })
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'unavailable' })
    expect(putOf(shop, id).sentAtMs).toBeUndefined()
  })
})
