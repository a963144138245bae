import { expect, it } from 'vitest'
import { STATFS_OUT } from '../../../src/kernel/dev-fuse/structures.ts'
import { toStatFs } from '../../../src/kernel/stats.ts'

const EIB = 2 ** 60

it.each([
  { capacity: 20e9, free: 5e9, told: { capacity: 20e9, free: 5e9 } },
  { capacity: 1e300, free: Number.MAX_VALUE, told: { capacity: EIB, free: EIB } },
  { capacity: 100 * 4096, free: 300 * 4096, told: { capacity: 300 * 4096, free: 300 * 4096 } },
])('df is told sizes that it can count ($capacity with $free free)', ({ told, ...space }) => {
  const { namemax, ...stat } = toStatFs(space)
  const { bsize, blocks, bfree } = STATFS_OUT.decode(
    STATFS_OUT.encode({ ...stat, namelen: namemax }),
  )
  expect(Math.abs(bsize * blocks - told.capacity)).toBeLessThan(bsize)
  expect(Math.abs(bsize * bfree - told.free)).toBeLessThan(bsize)
})
