import { expect, it } from 'vitest'
import { DiskPace } from '../../../src/content/disk-pace.ts'

function setUp() {
  let nowMs = 1_000
  const clock = { now: () => nowMs, after: () => () => undefined, sleep: () => Promise.resolve() }
  const pace = new DiskPace(clock)
  const work = (ms: number) => (): void => {
    nowMs += ms
  }
  return { pace, work, pass: (ms: number) => (nowMs += ms) }
}

it('a disk keeps up while its work is done within the time of the page cache', () => {
  const { pace, work } = setUp()
  for (let times = 0; times < 100; times += 1) pace.time(work(15))
  expect(pace.keepsUp).toBe(true)
})

it('a disk that made a writer wait is left to other threads for a while', () => {
  const { pace, work, pass } = setUp()
  pace.time(work(200))
  expect(pace.keepsUp).toBe(false)
  pass(9_000)
  expect(pace.keepsUp).toBe(false)
  pass(1_001)
  expect(pace.keepsUp).toBe(true)
})

it('notes work that failed, and passes its answer or error on', () => {
  const { pace, work } = setUp()
  expect(pace.time(() => 7)).toBe(7)
  const failing = (): never => {
    work(50)()
    throw new Error('full')
  }
  expect(() => pace.time(failing)).toThrow('full')
  expect(pace.keepsUp).toBe(false)
})
