import { describe, expect, it } from 'vitest'
import { putOf, requestedChanges } from './requested-changes.ts'
import { openWorkshop } from './workshop.ts'

describe('a refused upload', () => {
  it('for want of room is told as that, and passes when there is room', async () => {
    const shop = await openWorkshop({ capacityBytes: 1_000 })
    const large = await shop.given('large', 'x'.repeat(900))
    const id = await shop.put('a', 'y'.repeat(200))
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'no-space' })
    expect(putOf(shop, id).failure).toMatchObject({ waitsForUser: false })
    await shop.service.delete(large)
    await expect.poll(() => shop.outbox.get(id)?.phase).toBe('confirmed')
  })

  it('for want of room is not taken for another when there is room by the time it asks', async () => {
    const shop = await openWorkshop({ capacityBytes: 1_000 })
    const large = await shop.given('large', 'x'.repeat(900))
    shop.service.proxy.add({
      match: { method: 'GET', path: /user$/ },
      fault: {
        before: () => shop.service.delete(large).catch(() => undefined),
      },
    })
    const id = await shop.put('a', 'y'.repeat(200))
    await shop.uploader.attempt(id)
    await shop.uploader.finished(id)
    expect(putOf(shop, id).phase).toBe('confirmed')
    expect(requestedChanges(shop)).toEqual(['POST upload', 'POST upload'])
  })

  it('for something else waits for the user', async () => {
    const shop = await openWorkshop()
    shop.service.proxy.add({ match: { method: 'POST' }, fault: { answer: { status: 400 } } })
    const id = await shop.put('a', 'content')
    await expect(shop.uploader.attempt(id)).rejects.toMatchObject({ code: 'bad-request' })
    expect(putOf(shop, id).failure).toMatchObject({ waitsForUser: true })
  })
})
