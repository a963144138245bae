import { expect, it } from 'vitest'
import { openWorkshop } from './workshop.ts'

it('leaving tries once more what was being tried already', async () => {
  const shop = await openWorkshop({ retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 })
  const refusal = { times: 1, fault: { answer: { status: 500 } } }
  shop.service.proxy.add({ match: { method: 'POST' }, ...refusal })
  const id = await shop.put('a', 'content')
  const tried = expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'server-error' })
  expect(await shop.uploader.drain(new AbortController().signal)).toEqual([])
  await tried
  expect(await shop.service.contents()).toEqual({ a: 'content' })
})

it('leaving ends also when a change waits for a delete, and that for an upload which fails', async () => {
  const shop = await openWorkshop({ retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 })
  const stored = await shop.given('a', 'before')
  shop.service.proxy.add({ match: { method: 'POST' }, fault: { answer: { status: 503 } } })
  const place = await shop.put('place', 'before')
  const moved = await shop.delete('a', [stored], { after: [{ id: place }] })
  const anew = await shop.put('a', 'new')
  const left = await shop.uploader.drain(new AbortController().signal)
  expect(left.map(({ id }) => id)).toEqual([place, moved, anew])
})

it('leaving asks a service anew that did not answer a moment ago', async () => {
  const HOUR_MS = 3_600_000
  const shop = await openWorkshop({ retryBaseMs: HOUR_MS, retryMaxMs: HOUR_MS, pauseMs: HOUR_MS })
  shop.service.proxy.add({ fault: { silence: true } })
  const id = await shop.put('a', 'content')
  await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'timed-out' })
  const noTime = { facts: { notAsked: true } }
  await expect(shop.uploader.attempt(id)).rejects.toMatchObject(noTime)
  shop.service.proxy.clear()
  expect(await shop.uploader.drain(new AbortController().signal)).toEqual([])
  expect(await shop.service.contents()).toEqual({ a: 'content' })
})
