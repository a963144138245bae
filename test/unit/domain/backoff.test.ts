import { expect, it } from 'vitest'
import { backoffMs } from '../../../src/domain/backoff.ts'

it('doubles the wait up to the longest, however often something failed', () => {
  const waits = [0, 1, 2, 3, 4, 2_000].map((before) =>
    backoffMs(before, { firstMs: 10, longestMs: 75 }),
  )
  expect(waits).toEqual([10, 20, 40, 75, 75, 75])
})
