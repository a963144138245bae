import { expect, it } from 'vitest'
import { DiskSpeed } from '../../../src/content/disk-speed.ts'

function setUp() {
  let nowMs = 1_000
  const clock = { now: () => nowMs, after: () => () => undefined, sleep: () => Promise.resolve() }
  const disk = new DiskSpeed(clock)
  const work = (ms: number) => (): void => {
    nowMs += ms
  }
  return { disk, work, pass: (ms: number) => (nowMs += ms) }
}

it('a disk keeps up while its work is done within the time of the page cache', () => {
  const { disk, work } = setUp()
  for (let times = 0; times < 100; times += 1) disk.time(work(15))
  expect(disk.keepsUp).toBe(true)
})

it('a disk that made a writer wait is left to other threads for a while', () => {
  const { disk, work, pass } = setUp()
  disk.time(work(200))
  expect(disk.keepsUp).toBe(false)
  pass(9_000)
  expect(disk.keepsUp).toBe(false)
  pass(1_001)
  expect(disk.keepsUp).toBe(true)
})

it('notes work that failed, and passes its answer or error on', () => {
  const { disk, work } = setUp()
  expect(disk.time(() => 7)).toBe(7)
  const failing = (): never => {
    work(50)()
    throw new Error('full')
  }
  expect(() => disk.time(failing)).toThrow('full')
  expect(disk.keepsUp).toBe(false)
})
