import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { BagFile } from '../../../src/content/bag-file.ts'
import { CacheLayout } from '../../../src/content/cache-layout.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, makeDir } from './fake-downloads.ts'

afterEach(cleanUp)

const A = id('a')

const openLayout = async (): Promise<CacheLayout> => CacheLayout.open(await makeDir(), silentLogger)

it('does not count bytes as here that a drop took while they were written', async () => {
  const file = BagFile.empty(await openLayout(), A, A)
  await file.write([noiseOf(1000)], 0)
  const writing = file.write([noiseOf(1000)], 1000)
  file.dropExcept(0, 0)
  expect(await writing).toBe(0)
  expect(file.ranges.toJSON()).toEqual([])
  file.close()
})

it('does not write down ranges that a drop took meanwhile', async () => {
  const layout = await openLayout()
  const file = BagFile.empty(layout, A, A)
  await file.write([noiseOf(1000)], 0)
  const saving = file.saveRanges()
  file.dropExcept(0, 0)
  await saving
  expect(existsSync(layout.paths(A).ranges)).toBe(false)
  expect(BagFile.openPartial(layout, A, A)).toBeUndefined()
  file.close()
})

it('does not leave ranges of an earlier part beside a new one', async () => {
  const layout = await openLayout()
  const { ranges } = layout.paths(A)
  await mkdir(dirname(ranges), { recursive: true })
  await writeFile(ranges, JSON.stringify({ bagId: A, ranges: [[0, 10]] }))
  const file = BagFile.empty(layout, A, A)
  await file.write([noiseOf(10)], 100)
  expect(existsSync(ranges)).toBe(false)
  file.close()
})

it('closes its descriptor only when a write that runs has ended', async () => {
  const file = BagFile.empty(await openLayout(), A, A)
  const writing = file.write([noiseOf(5000), noiseOf(10)], 0)
  file.close()
  expect(await writing).toBe(5010)
  expect(file.fd).toBeUndefined()
})

it('keeps the bytes that are wanted when it drops the others', async () => {
  const file = BagFile.empty(await openLayout(), A, A)
  const content = noiseOf(5000)
  await file.write([content], 0)
  file.dropExcept(3000, 4000)
  expect(file.ranges.toJSON()).toEqual([[3000, 4000]])
  const kept = Buffer.alloc(1000)
  file.readNow(kept, 3000, 1000)
  expect(kept.equals(content.subarray(3000, 4000))).toBe(true)
  file.close()
})
