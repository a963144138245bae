import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { BusyPoll } from '../../../src/kernel/busy-poll.ts'

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn()
}

it('keeps the event loop awake for its time after the last call, and no longer', async () => {
  let nowMs = 0
  const busyPoll = new BusyPoll({ awakeMs: 1, processors: 2, now: () => nowMs })
  expect(busyPoll.isAwake).toBe(false)
  busyPoll.touch()
  await turns(20)
  expect(busyPoll.isAwake).toBe(true)
  nowMs = 0.9
  busyPoll.touch()
  nowMs = 1.5
  await turns(20)
  expect(busyPoll.isAwake).toBe(true)
  nowMs = 2
  await turns(2)
  expect(busyPoll.isAwake).toBe(false)
})

it('never keeps a single processor from the program that asks', () => {
  const busyPoll = new BusyPoll({ processors: 1 })
  busyPoll.touch()
  expect(busyPoll.isAwake).toBe(false)
})
