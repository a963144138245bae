import { expect, it } from 'vitest'
import { ReadDispatcher } from '../../../src/content/read-dispatcher.ts'

const BLOCK = 4096
/** What a read takes, in ms: from the page cache, from a solid-state disk, from one that turns. */
const CACHED = 0.02
const SOLID = 0.08
const TURNING = 8

function setUp() {
  let nowMs = 1_000
  const pass = (ms: number): void => {
    nowMs += ms
  }
  const dispatcher = new ReadDispatcher(() => nowMs)
  /** Reads, `afterMs` after the last answer, the way the dispatcher wants it. */
  const read = (ms: number, afterMs: number): 'at once' | 'handed over' => {
    pass(afterMs)
    if (dispatcher.isToHandOver()) return 'handed over'
    dispatcher.atOnce(BLOCK, () => {
      pass(ms)
    })
    return 'at once'
  }
  return { dispatcher, read, pass }
}

/** Further apart than a program that asks again can be. */
const ALONE = 0.05
const QUEUED = 0.001

it('reads from the page cache at once, however many there are', () => {
  const { read } = setUp()
  for (let times = 0; times < 500; times += 1) expect(read(CACHED, QUEUED)).toBe('at once')
})

it('a large read from the page cache is not taken for one from the disk', () => {
  const { dispatcher, pass } = setUp()
  dispatcher.atOnce(1024 * 1024, () => {
    pass(0.25)
  })
  expect(dispatcher.isToHandOver()).toBe(false)
})

it('reads from the disk at once for a program that asks one thing after the other', () => {
  const { read } = setUp()
  for (let times = 0; times < 500; times += 1) expect(read(SOLID, ALONE)).toBe('at once')
})

it('hands reads from the disk over when one was waiting for the other', () => {
  const { read } = setUp()
  expect(read(SOLID, ALONE)).toBe('at once')
  expect(read(SOLID, QUEUED)).toBe('handed over')
})

it('takes a read for one that waited also when the answer before it took its time to write', () => {
  const { read } = setUp()
  expect(read(SOLID, ALONE)).toBe('at once')
  expect(read(SOLID, 0.04)).toBe('handed over')
})

it('hands reads from the disk over while others are read elsewhere', async () => {
  const { dispatcher, read } = setUp()
  read(SOLID, ALONE)
  let end = (): void => undefined
  const elsewhere = dispatcher.handOver(
    () =>
      new Promise<void>((resolve) => {
        end = resolve
      }),
  )
  expect(read(SOLID, ALONE)).toBe('handed over')
  end()
  await elsewhere
  expect(read(SOLID, ALONE)).toBe('at once')
})

it('a read that failed elsewhere is not counted for ever', async () => {
  const { dispatcher, read } = setUp()
  read(SOLID, ALONE)
  const failing = dispatcher.handOver(() => Promise.reject(new Error('no disk')))
  await expect(failing).rejects.toThrow('no disk')
  expect(read(SOLID, ALONE)).toBe('at once')
})

it('a disk that takes long does not hold up the drive, not even for one program', () => {
  const { read } = setUp()
  expect(read(TURNING, ALONE)).toBe('at once')
  const reads = Array.from({ length: 640 }, () => read(TURNING, ALONE))
  expect(reads.filter((how) => how === 'at once')).toHaveLength(10)
})

it('notices when the page cache has it again', () => {
  const { read } = setUp()
  read(TURNING, ALONE)
  for (let times = 0; times < 64; times += 1) read(CACHED, ALONE)
  expect(read(CACHED, QUEUED)).toBe('at once')
})

it('passes answers and errors on, and notes how long a failure took', () => {
  const { dispatcher, pass } = setUp()
  expect(dispatcher.atOnce(BLOCK, () => 7)).toBe(7)
  const failing = (): never => {
    pass(TURNING)
    throw new Error('no disk')
  }
  expect(() => dispatcher.atOnce(BLOCK, failing)).toThrow('no disk')
  expect(dispatcher.isToHandOver()).toBe(true)
})
