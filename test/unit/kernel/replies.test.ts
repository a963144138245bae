import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { BusyPoll } from '../../../src/kernel/busy-poll.ts'
import { Replies } from '../../../src/kernel/replies.ts'
import { recordingLog } from '../service/harness.ts'

const gone = new DriveError('not-found', 'It is gone.')

function answering() {
  const log = recordingLog()
  const time = { nowMs: 0 }
  const busyPoll = new BusyPoll({ processors: 2, now: () => time.nowMs })
  const replies = new Replies(log, busyPoll)
  const answer = (task: () => Promise<void>): Promise<number> =>
    new Promise((reply) => {
      replies.done({ operation: 'open', path: '/a', reply }, task)
    })
  return { log, time, busyPoll, answer }
}

it.each([
  ['debug', 'what is not there', gone],
  ['debug', 'what vanished since it was looked up', new DriveError('stale', '', { cause: gone })],
  ['warn', 'what is stale for any other reason', new DriveError('stale', 'It was replaced.')],
  ['warn', 'a service that fails', new DriveError('server-error', 'It broke.')],
  ['error', 'a bug', new TypeError('undefined is no function')],
])('tells the log at level %s of %s', async (level, _, error) => {
  const { log, answer } = answering()
  expect(await answer(() => Promise.reject(error))).toBeLessThan(0)
  expect(log.lines.map((line) => line.level)).toEqual([level])
})

it('stays awake for the question that follows a late answer', async () => {
  const { time, busyPoll, answer } = answering()
  expect(await answer(() => Promise.resolve())).toBe(0)
  await nextTurn()
  expect(busyPoll.isAwake).toBe(true)
  time.nowMs = 1
  await nextTurn()
  expect(busyPoll.isAwake).toBe(false)
})
