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
