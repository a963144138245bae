import { expect, it } from 'vitest'
import { ofPut, seenUploaded } from '../../../src/intents/transitions.ts'
import type { Intent } from '../../../src/intents/intent.ts'
import { IntentsOfThen } from '../../../src/outbox/intents-of-then.ts'
import { bag } from '../namespace/builders.ts'
import { openWorkshop } from './workshop.ts'

const DURABILITY = { durable: false }
const byId = (one: Intent, other: Intent): number => (one.id < other.id ? -1 : 1)

it('the intents of then are told as they were, whatever changes since', async () => {
  const shop = await openWorkshop()
  const { outbox } = shop
  await shop.put('stays', '1', { replaces: [bag(1)] })
  const changed = await shop.put('changed', '2', { replaces: [bag(1)] })
  const gone = await shop.delete('gone', [bag(1)])
  const all = outbox.intents()

  const then = new IntentsOfThen(outbox)
  for (const atMs of [1, 2]) {
    const note = ofPut((intent) => seenUploaded(intent, { bagId: bag(1), atMs }))
    await outbox.update(changed, note, DURABILITY)
  }
  await outbox.remove(gone)
  const since = await shop.put('new', '3', { replaces: [bag(1)] })
  expect([...then.intents()].sort(byId)).toEqual(all)
  expect([...then.ofBag(bag(1))].sort(byId)).toEqual(all)

  then.close()
  await outbox.remove(since)
  expect(then.intents()).toHaveLength(all.length)
})
