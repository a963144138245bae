import { describe, expect, it } from 'vitest'
import { ahead } from '../../../src/zip/ahead.ts'

describe('ahead', () => {
  it('keeps the order and works on no more than it may', async () => {
    let running = 0
    let most = 0
    const work = async (item: number): Promise<number> => {
      running += 1
      most = Math.max(most, running)
      for (let turns = 10 - item; turns > 0; turns -= 1) await Promise.resolve()
      running -= 1
      return item
    }
    const results: number[] = []
    for await (const result of ahead([1, 2, 3, 4, 5, 6, 7, 8], 3, work)) results.push(result)
    expect(results).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(most).toBeGreaterThan(1)
    expect(most).toBeLessThanOrEqual(3)
  })

  it('waits for what is under way when one fails, and hides no failure', async () => {
    const finished: number[] = []
    const work = async (item: number): Promise<number> => {
      if (item === 1) throw new Error('the first')
      if (item === 2) throw new Error('another that nobody reads')
      for (let turns = 0; turns < 20; turns += 1) await Promise.resolve()
      finished.push(item)
      return item
    }
    const read = async (): Promise<void> => {
      for await (const result of ahead([1, 2, 3, 4], 4, work)) finished.push(-result)
    }
    await expect(read()).rejects.toThrow('the first')
    expect(finished).toEqual([3, 4])
  })
})
