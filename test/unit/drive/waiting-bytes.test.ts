import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WaitingBytes } from '../../../src/drive/space/waiting-bytes.ts'
import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
import { bag, put, remove } from '../namespace/builders.ts'

const ACCOUNT = { uid: 'someone', capacity: 1_000, spaceLeft: 100, askedAtMs: 50 }

const states: Partial<PutIntent>[] = [
  {},
  { phase: 'local' },
  { bagId: bag(1) },
  { phase: 'confirmed', bagId: bag(1), confirmedAtMs: 40 },
  { phase: 'confirmed', bagId: bag(1), confirmedAtMs: 60 },
]
const intent = fc
  .record({
    n: fc.integer({ min: 1, max: 4 }),
    // The largest is more than the account can take.
    length: fc.constantFrom(0, 7, 30, 200),
    state: fc.constantFrom(...states),
    isPut: fc.boolean(),
  })
  .map(({ n, length, state, isPut }): Intent =>
    isPut
      ? put(n, 'f', { content: { from: 'staged', length, sha256: '' }, ...state })
      : remove(n, []),
  )

/** Each counted for itself. */
function countedAnew(intents: Iterable<Intent>): number {
  let sum = 0
  for (const each of intents) {
    const waiting = new WaitingBytes(ACCOUNT)
    waiting.set(each)
    sum += waiting.sum
  }
  return sum
}

it('counts what is left of many changes as if each were counted then, and nothing twice', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ intent, isGone: fc.boolean() })), (changes) => {
      const waiting = new WaitingBytes(ACCOUNT)
      const left = new Map<string, Intent>()
      for (const { intent: each, isGone } of changes) {
        waiting.set(each)
        if (isGone) waiting.delete(each)
        if (isGone) left.delete(each.id)
        else left.set(each.id, each)
      }
      expect(waiting.sum).toBe(countedAnew(left.values()))
    }),
  )
})

it('counts a put until an answer that was asked for after it, and none that is too large', () => {
  const counted = (state: Partial<PutIntent>, length = 30): number => {
    const content = { from: 'staged', length, sha256: '' } as const
    return countedAnew([put(1, 'f', { content, ...state })])
  }
  const [, local, given, before, after] = states
  expect(counted({})).toBe(30)
  expect(counted({}, 200)).toBe(0)
  expect(counted({ ...given }, 200)).toBe(200)
  expect([local, before].map((state) => counted({ ...state }))).toEqual([0, 0])
  expect(counted({ ...after })).toBe(30)
  expect(countedAnew([remove(1, [bag(1)])])).toBe(0)
})
