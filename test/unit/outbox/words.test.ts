import { describe, expect, it } from 'vitest'
import type { IntentFailure } from '../../../src/intents/intent.ts'
import { chooseItems, listItems } from '../../../src/outbox/items.ts'
import { percentOf, stateOfIntent } from '../../../src/outbox/words.ts'
import { bag, intentId, put, remove } from '../namespace/builders.ts'

const failure: IntentFailure = {
  code: 'rejected',
  message: 'No such files here.',
  atMs: 1,
  tries: 2,
  waitsForUser: true,
}

describe('the state of a change in plain words', () => {
  it.each([
    [put(1, 'a'), undefined, 'waiting'],
    [put(1, 'a'), 40, 'uploading 40 %'],
    [put(1, 'a', { failure }), undefined, 'failed: No such files here (waits for you)'],
    [
      put(1, 'a', { failure: { ...failure, waitsForUser: false } }),
      undefined,
      'failed: No such files here (will be tried again)',
    ],
    [put(1, 'a', { bagId: bag(1) }), undefined, 'sent; not seen at the service yet'],
    [put(1, 'a', { phase: 'local' }), undefined, 'local only'],
    [put(1, 'a', { phase: 'held' }), undefined, 'held: a step of a save'],
    [
      put(1, 'a', { phase: 'held', failure }),
      undefined,
      'failed: No such files here (waits for you)',
    ],
    [put(1, 'a', { phase: 'confirmed' }), undefined, 'stored'],
    [
      put(1, 'a', { phase: 'confirmed', replaces: [bag(2)] }),
      undefined,
      'stored; the old version is being deleted',
    ],
    [
      put(1, 'a', { phase: 'confirmed', failure }),
      undefined,
      'stored; the old version is still there: failed: No such files here (waits for you)',
    ],
    [remove(1, [], { phase: 'confirmed' }), undefined, 'stored'],
  ])('%#: is one phrase', (intent, percent, words) => {
    expect(stateOfIntent(intent, percent)).toBe(words)
  })

  it('counts whole percent and never more than 100', () => {
    expect(percentOf({ sentBytes: 999, totalBytes: 1000 })).toBe(99)
    expect(percentOf({ sentBytes: 1200, totalBytes: 1000 })).toBe(100)
    expect(percentOf({ sentBytes: 0, totalBytes: 0 })).toBe(0)
  })
})

describe('the items of the outbox', () => {
  it('leave out what is done and what another change takes the place of', () => {
    const items = listItems([
      put(1, 'a', { phase: 'confirmed', replacedAreDeleted: true }),
      put(2, 'b'),
      put(3, 'b', { supersedes: [intentId(2)] }),
    ])
    expect(items.map(({ id }) => id)).toEqual([intentId(3)])
  })

  it('tell when a failed one is tried again, unless it waits for the person', () => {
    const sending = { progress: () => [], nextTryAtMs: () => 77 }
    const passing = { ...failure, waitsForUser: false }
    const items = listItems([put(1, 'a', { failure }), put(2, 'b', { failure: passing })], sending)
    expect(items.map(({ nextTryAtMs }) => nextTryAtMs)).toEqual([undefined, 77])
  })

  it('are chosen by id or by name, and what is none is refused', () => {
    const items = listItems([put(1, 'a'), put(2, 'b'), put(3, 'b')])
    const ids = (wanted: string[]): string[] => chooseItems(items, wanted).map(({ id }) => id)
    expect(ids(['b', intentId(3)])).toEqual([intentId(2), intentId(3)])
    expect(() => ids(['c'])).toThrow('"c"')
  })
})
