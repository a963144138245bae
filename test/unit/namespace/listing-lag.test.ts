import { describe, expect, it } from 'vitest'
import { ListingIndex } from '../../../src/namespace/listing-index.ts'
import { ListingLag } from '../../../src/namespace/listing-lag.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import { bag, put, record } from './builders.ts'

const [A, B] = [bag(1), bag(2)]
const confirmed = (number: number, bagId: BagId) =>
  put(number, `${number}`, { phase: 'confirmed', bagId, confirmedAtMs: 1_000 })

/** A listing that was asked for at `startedAtMs`. */
function answer(startedAtMs: number, ...bags: readonly BagId[]) {
  const records = bags.map((bagId) => record(bagId, bagId))
  const index = new ListingIndex(() => undefined)
  Array.from(index.add(records))
  return { index, records, startedAtMs, receivedAtMs: startedAtMs }
}

describe('how late a listing is', () => {
  it('is not known before anything that was stored is listed', () => {
    const lag = new ListingLag()
    lag.note(answer(5_000), [confirmed(1, A)])
    expect(lag.longestMs).toBeUndefined()
  })

  it('is none where the first answer has what was stored', () => {
    const lag = new ListingLag()
    lag.note(answer(900), [confirmed(1, A)])
    lag.note(answer(1_100, A), [confirmed(1, A)])
    expect(lag.longestMs).toBe(0)
  })

  it('is the longest time after which an answer lacked what is listed later, and not what never is', () => {
    const lag = new ListingLag()
    const both = [confirmed(1, A), confirmed(2, B)]
    lag.note(answer(2_000), both)
    lag.note(answer(4_000), both)
    lag.note(answer(6_000, A), both)
    lag.note(answer(9_000, A), both)
    expect(lag.longestMs).toBe(3_000)
  })
})
