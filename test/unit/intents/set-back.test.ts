import { expect, it } from 'vitest'
import { notToCome } from '../../../src/intents/set-back.ts'
import { put, remove } from '../namespace/builders.ts'

const NOW_MS = 1_000_000_000
const AHEAD_MS = NOW_MS + 86_400_000

it.each(['createdAtMs', 'answeredAtMs', 'confirmedAtMs', 'sentAtMs', 'heldUntilMs'] as const)(
  '%s of a clock that was ahead is now',
  (time) => {
    const past = put(1, 'name', { createdAtMs: NOW_MS - 1, [time]: AHEAD_MS })
    expect(notToCome(past, NOW_MS)).toEqual({ ...past, [time]: NOW_MS })
  },
)

it('times that can be right stay', () => {
  const held = put(1, 'name', { phase: 'held', heldUntilMs: NOW_MS + 60_000, createdAtMs: NOW_MS })
  const deleted = remove(2, [], { createdAtMs: NOW_MS, confirmedAtMs: NOW_MS })
  for (const intent of [held, deleted]) expect(notToCome(intent, NOW_MS)).toBe(intent)
})
