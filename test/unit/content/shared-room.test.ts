import { describe, expect, it } from 'vitest'
import { SharedRoom } from '../../../src/content/shared-room.ts'
import { silentLogger } from '../../../src/domain/logger.ts'

const MIB = 2 ** 20

/** A disk of which so much is free above the floor; cache and givers give one MiB at a time. */
function open(spare: number, has: { cache: number; first: number; second: number }) {
  const disk = { spare }
  const left = { ...has }
  const given: string[] = []
  const give = (from: keyof typeof has) => (): Promise<boolean> => {
    if (left[from] === 0) return Promise.resolve(false)
    left[from] -= 1
    disk.spare += MIB
    given.push(from)
    return Promise.resolve(true)
  }
  const cache = { spareBytes: () => Promise.resolve(disk.spare), evictOne: give('cache') }
  const room = new SharedRoom({ log: silentLogger }, cache)
  room.add(give('first'))
  room.add(give('second'))
  return { room, given, disk }
}

describe('the room of a disk', () => {
  it('is made of the cache first, then of the others in their order, and of no more than is needed', async () => {
    const { room, given } = open(0, { cache: 2, first: 1, second: 5 })
    expect(await room.make(5 * MIB)).toBe(true)
    expect(given).toEqual(['cache', 'cache', 'first', 'second', 'second'])
    expect(await room.make(5 * MIB)).toBe(false)
    expect(given).toHaveLength(5)
  })

  it('cannot be made of nothing', async () => {
    const { room } = open(-MIB, { cache: 0, first: 0, second: 0 })
    expect(await room.make(1)).toBe(false)
  })

  it('is kept above its floor while programs write', async () => {
    const { room, given, disk } = open(9 * MIB, { cache: 20, first: 0, second: 0 })
    for (let written = 0; written < 16; written += 1) {
      disk.spare -= MIB
      room.noteWritten(MIB)
    }
    await expect.poll(() => disk.spare).toBeGreaterThanOrEqual(8 * MIB)
    expect(given.length).toBeGreaterThan(0)
  })
})
