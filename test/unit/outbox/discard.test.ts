import { deferred } from '../../../src/domain/deferred.ts'
import { describe, expect, it } from 'vitest'
import type { IntentId } from '../../../src/domain/ids.ts'
import { discardIntents } from '../../../src/outbox/discard.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const stop = new AbortController().signal

describe('discarding a change', () => {
  it('forgets what it took the place of too, however long the chain', async () => {
    const shop = await openWorkshop()
    const first = await shop.put('a', 'first', { sentAtMs: 1 })
    const second = await shop.put('a', 'second', { supersedes: [first], sentAtMs: 2 })
    const third = await shop.put('a', 'third', { supersedes: [second] })
    await discardIntents(shop.outbox, [third])
    expect(shop.outbox.intents()).toEqual([])
    const next = await shop.restart()
    await next.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({})
  })

  it('keeps what the service has already', async () => {
    const shop = await openWorkshop()
    const first = await shop.put('a', 'first')
    await shop.uploader.attempt(first)
    await shop.uploader.finished(first)
    const second = await shop.put('a', 'second', { supersedes: [first] })
    await discardIntents(shop.outbox, [second])
    expect(shop.outbox.intents().map(({ id }) => id)).toEqual([first])
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({ a: 'first' })
  })

  it('is refused, and nothing forgotten, while one of them is being sent', async () => {
    const shop = await openWorkshop()
    const first = await shop.put('a', 'first')
    const second = await shop.put('a', 'second', { supersedes: [first] })
    const over = deferred()
    shop.jobs.begin(first, {
      isOfDrain: false,
      work: () => over.promise,
      onFailed: () => Promise.resolve(),
    })
    const discarding = discardIntents(shop.outbox, [second], shop.jobs)
    await expect(discarding).rejects.toMatchObject({ code: 'busy' })
    expect(shop.outbox.intents().map(({ id }) => id)).toEqual([first, second])
    over.resolve()
  })

  it('is not sent by a try that begins meanwhile', async () => {
    let tries: Promise<unknown> | undefined
    const shop: Workshop = await openWorkshop({
      onStep: (step) => {
        if (step === 'remove.unlinked') tries ??= shop.uploader.attempt(second).catch(String)
      },
    })
    const first = await shop.put('a', 'first', { sentAtMs: 1 })
    const second: IntentId = await shop.put('a', 'second', { supersedes: [first] })
    await discardIntents(shop.outbox, [second], shop.jobs)
    expect(await tries).toContain('The change was taken back.')
    await shop.uploader.drain(stop)
    expect(await shop.service.contents()).toEqual({})
    expect(shop.jobs.size).toBe(0)
  })

  it('brings nothing back when it is killed in the middle', async () => {
    const killed = new Error('killed')
    let isKilled = true
    const shop = await openWorkshop({
      onStep: (step) => {
        if (isKilled && step === 'remove.unlinked') throw killed
      },
    })
    const first: IntentId = await shop.put('a', 'first', { sentAtMs: 1 })
    const second = await shop.put('a', 'second', { supersedes: [first] })
    await expect(discardIntents(shop.outbox, [second])).rejects.toThrow()
    isKilled = false
    const next = await shop.restart()
    expect(next.outbox.intents().map(({ id }) => id)).toEqual([second])
    await discardIntents(next.outbox, [second])
    expect(next.outbox.intents()).toEqual([])
  })
})
