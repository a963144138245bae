import { expect, test } from 'vitest'
import { describeLeaving } from '../../../src/cli/leaving-line.ts'

test('tells what waits, how fast it goes and how long it takes', () => {
  const progress = { waiting: 3, waitingBytes: 12e6, bytesPerSecond: 4e6 }
  expect(describeLeaving(progress)).toMatch(
    /^Leaving: 3 changes wait, 12 MB at 4\.0 MB\/s, about 3 s\./,
  )
  expect(describeLeaving({ ...progress, bytesPerSecond: 10_000 })).toContain('about 20 min')
})

test('tells of one change, of none, and of the last failure', () => {
  expect(describeLeaving({ waiting: 1, waitingBytes: 5 })).toMatch(
    /^Leaving: 1 change waits, 5 B\./,
  )
  expect(describeLeaving({ waiting: 0, waitingBytes: 0 })).toContain('nothing waits')
  const failing = { waiting: 1, waitingBytes: 5, bytesPerSecond: 0, failure: 'No network.' }
  expect(describeLeaving(failing)).toContain('last failure: No network. Once more')
})
