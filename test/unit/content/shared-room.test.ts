import { describe, expect, it } from 'vitest'
import { SharedRoom } from '../../../src/content/shared-room.ts'
import { silentLogger } from '../../../src/domain/logger.ts'

const MIB = 2 ** 20

/** What is left free beside the cache. */
const FLOOR = 4 * MIB

/** A disk of which so much is free above the floor; cache and givers give one MiB at a time. */
function open(
  spare: number,
  has: { cache: number; first: number; second: number; pinned?: number },
) {
  const disk = { spare }
  const left = { pinned: 0, ...has }
  const given: string[] = []
  const give = (from: keyof typeof left) => (): Promise<boolean> => {
    if (left[from] === 0) return Promise.resolve(false)
    left[from] -= 1
    disk.spare += MIB
    given.push(from)
    return Promise.resolve(true)
  }
  const cache = {
    spareBytes: () => Promise.resolve(disk.spare),
    freeBytes: () => Promise.resolve(disk.spare + FLOOR),
    evictOne: give('cache'),
    evictPinned: give('pinned'),
  }
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

  it('is made of pinned content last, for a write that fails otherwise and by no more than that needs', async () => {
    const { room, given } = open(-FLOOR, { cache: 1, first: 1, second: 0, pinned: 9 })
    expect(await room.evictOne()).toBe(true)
    expect(await room.make(4 * MIB)).toBe(true)
    expect(given).toEqual(['cache', 'first', 'pinned', 'pinned'])
    expect(await room.evictOne()).toBe(false)
  })

  it('is kept above its floor while programs write', async () => {
    const has = { cache: 20, first: 0, second: 0, pinned: 20 }
    const { room, given, disk } = open(9 * MIB, has)
    for (let written = 0; written < 16; written += 1) {
      disk.spare -= MIB
      room.noteWritten(MIB)
    }
    await expect.poll(() => disk.spare).toBeGreaterThanOrEqual(8 * MIB)
    expect(given.length).toBeGreaterThan(0)
    expect(given).not.toContain('pinned')
  })
})
