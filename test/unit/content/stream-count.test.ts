import { describe, expect, it } from 'vitest'
import { StreamCount } from '../../../src/content/stream-count.ts'
import { FakeClock } from './fake-downloads.ts'

const SECONDS = 20
const TICK_MS = 50

/** What a bag gets each second from so many streams. */
type Line = (running: number) => number

function setUp() {
  const clock = new FakeClock()
  const count = new StreamCount(clock)
  /** A bag comes over the line for some seconds, by as many streams as are wanted. Answers the numbers of streams that it had. */
  const bring = (line: Line, seconds = SECONDS): ReadonlySet<number> => {
    const had = new Set<number>()
    for (let ms = 0; ms < 1000 * seconds; ms += TICK_MS) {
      const running = count.wanted
      had.add(running)
      clock.advance(TICK_MS)
      count.came((line(running) * TICK_MS) / 1000, running)
    }
    return had
  }
  return { clock, count, bring }
}

const perConnection: Line = (running) => 5e6 * running
const full: Line = () => 5e6
const loopback: Line = () => 600e6
/** Two connections fill it. */
const fullAtTwo: Line = (running) => 5e6 * Math.min(2, running)

describe('how many streams bring a bag', () => {
  it('grows while each of them gets the same, up to four', () => {
    const { count, bring } = setUp()
    expect([...bring(perConnection)]).toEqual([1, 2, 3, 4])
    expect(count.wanted).toBe(4)
  })

  it('is one again after a try where one fills the line, and stays so for a minute', () => {
    const { clock, count, bring } = setUp()
    expect([...bring(full)]).toEqual([1, 2])
    expect(count.wanted).toBe(1)
    expect([...bring(full)]).toEqual([1])
    clock.advance(60_000)
    expect([...bring(full)]).toEqual([1, 2])
  })

  it('stops where one more gains nothing', () => {
    const { count, bring } = setUp()
    expect([...bring(fullAtTwo)]).toEqual([1, 2, 3])
    expect(count.wanted).toBe(2)
  })

  it('is one where the processor is what they wait for', () => {
    expect([...setUp().bring(loopback)]).toEqual([1])
  })

  it('is one while too little comes to measure anything', () => {
    expect([...setUp().bring(perConnection, 0.25)]).toEqual([1])
  })

  it('does not take a pause of the reader for a slow line', () => {
    const { clock, count, bring } = setUp()
    bring(perConnection, 3.5)
    expect(count.wanted).toBe(3)
    clock.advance(30_000)
    bring(perConnection)
    expect(count.wanted).toBe(4)
  })

  it('is one for a minute after one of several failed', () => {
    const { clock, count, bring } = setUp()
    bring(perConnection)
    count.failed()
    expect([...bring(perConnection)]).toEqual([1])
    clock.advance(60_000)
    bring(perConnection)
    expect(count.wanted).toBe(4)
  })

  it('is one for files that come at once, one after the other with a moment between', () => {
    const { clock, count } = setUp()
    for (let file = 0; file < 50; file += 1) {
      for (let piece = 0; piece < 4; piece += 1) {
        clock.advance(10)
        count.came(5e6, 1)
      }
      count.ended()
      clock.advance(500)
    }
    expect(count.wanted).toBe(1)
  })

  it('tries a second one soon', () => {
    expect([...setUp().bring(perConnection, 0.5)]).toEqual([1, 2])
  })

  it('has no block for what is too little to be shared', () => {
    const { count } = setUp()
    expect(count.blockOf(4 * 2 ** 20, 2)).toBe(2 * 2 ** 20)
    expect(count.blockOf(4 * 2 ** 20 - 1, 2)).toBeUndefined()
  })

  it('gives all bags together three more than one each', () => {
    const { count } = setUp()
    const rights = [1, 2, 3].map(() => count.takeBeside())
    expect(rights).not.toContain(undefined)
    expect(count.takeBeside()).toBeUndefined()
    rights[1]?.()
    expect(count.takeBeside()).toBeDefined()
  })

  it('lets each bring two seconds of what it gets, between 2 and 16 MiB', () => {
    const mebibytes = (line: Line): number => {
      const { count, bring } = setUp()
      bring(line)
      return (count.blockOf(1e9, 1) ?? 0) / 2 ** 20
    }
    expect(mebibytes((running) => 5 * 2 ** 20 * running)).toBeCloseTo(10, 0)
    expect(mebibytes((running) => 1e5 * running)).toBe(2)
    expect(mebibytes((running) => 4e7 * running)).toBe(16)
  })
})
