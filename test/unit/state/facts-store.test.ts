import { readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { describe, expect, test } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import { silentLogger, type Logger } from '../../../src/domain/logger.ts'
import { FactsStore } from '../../../src/state/facts-store.ts'
import { useTempDir } from './temp-dir.ts'

const dir = useTempDir()
const bag = toBagId('b'.repeat(64))
const other = toBagId('not hex / at all')

function logTo(warnings: string[]): Logger {
  return { ...silentLogger, warn: (_, message) => warnings.push(message) }
}

const openStore = (warnings: string[] = []): Promise<FactsStore> =>
  FactsStore.open({ log: logTo(warnings) }, { dir: dir.path })

test('facts add up, are known at once and after the next start', async () => {
  const store = await openStore()
  expect(store.get(bag)).toBeUndefined()
  store.learn(bag, { kind: 'file', length: 5 })
  store.learn(bag, { sha256: 'a'.repeat(64) })
  store.learn(other, { mode: 0o600, mtimeMs: 1.5, atimeMs: 2 })
  const expected = { kind: 'file', length: 5, sha256: 'a'.repeat(64) }
  expect(store.get(bag)).toEqual(expected)
  await store.close()
  await store.close()
  const again = await openStore()
  expect(again.get(bag)).toEqual(expected)
  expect(again.get(other)).toEqual({ mode: 0o600, mtimeMs: 1.5, atimeMs: 2 })
  await again.close()
})

test('a length that turns out to be certain is so from then on, also for the next start', async () => {
  const store = await openStore()
  store.learn(bag, { length: 5, isCertain: false })
  store.learn(bag, { length: 5, isCertain: true })
  expect(store.get(bag)?.isCertain).toBe(true)
  await store.close()
  const again = await openStore()
  expect(again.get(bag)).toEqual({ length: 5, isCertain: true })
  await again.close()
})

test('a length that is not true after all is forgotten, also by the next start', async () => {
  const store = await openStore()
  store.learn(bag, { length: 5, mode: 0o600 })
  store.learn(bag, { length: undefined })
  expect(store.get(bag)?.length).toBeUndefined()
  await store.close()
  const again = await openStore()
  expect(again.get(bag)).toEqual({ mode: 0o600 })
  await again.close()
})

test('flush puts what was learned on disk while the store is open', async () => {
  const store = await openStore()
  store.learn(bag, { length: 7 })
  await store.flush()
  const files = await readdir(join(dir.path, 'facts', 'v1'))
  const log = files.find((name) => name.endsWith('.log')) ?? ''
  expect(await readFile(join(dir.path, 'facts', 'v1', log), 'latin1')).toContain('"length":7')
  await store.close()
})

test('a fact of a bag that changes is taken, with a warning', async () => {
  const warnings: string[] = []
  const store = await openStore(warnings)
  store.learn(bag, { kind: 'file', length: 1, mode: 0o644 })
  store.learn(bag, { kind: 'file', length: 1, mode: 0o600 })
  expect(warnings).toEqual([])
  store.learn(bag, { length: 2 })
  store.learn(bag, { kind: 'folder' })
  expect(warnings).toHaveLength(2)
  expect(store.get(bag)).toEqual({ kind: 'folder', length: 2, mode: 0o600 })
  await store.close()
})

test('one process at a time: a second is refused', async () => {
  const store = await openStore()
  await expect(openStore()).rejects.toMatchObject({ code: 'locked' })
  store.learn(bag, { length: 1 })
  await store.close()
  await (await openStore()).close()
})

test('the directory is private', async () => {
  await (await openStore()).close()
  expect((await stat(join(dir.path, 'facts'))).mode & 0o777).toBe(0o700)
})

describe('a damaged store', () => {
  const path = (): string => join(dir.path, 'facts', 'v1')
  const damages: Record<string, () => Promise<void>> = {
    'an empty CURRENT': () => truncate(join(path(), 'CURRENT')),
    'a missing manifest': async () => {
      for (const name of await readdir(path())) {
        if (name.startsWith('MANIFEST')) await rm(join(path(), name))
      }
    },
    'overwritten tables': async () => {
      for (const name of await readdir(path())) {
        if (name.endsWith('.ldb')) await writeFile(join(path(), name), 'x'.repeat(5_000))
      }
    },
  }

  test.each(Object.keys(damages))('with %s is set aside, and a new one learns', async (name) => {
    const store = await openStore()
    for (let n = 0; n < 500; n += 1) store.learn(toBagId(`bag ${n}`), { length: n })
    await store.close()
    const database = new ClassicLevel(path())
    await database.open()
    await database.compactRange('a', 'z')
    await database.close()
    await damages[name]?.()

    const warnings: string[] = []
    const again = await openStore(warnings)
    expect(again.get(toBagId('bag 1'))).toBeUndefined()
    expect(warnings).toEqual(['The facts of bags are damaged: set aside.'])
    expect((await readdir(dir.path)).some((one) => /^facts\.bad-\d+$/.test(one))).toBe(true)
    again.learn(bag, { length: 3 })
    await again.close()
    const third = await openStore()
    expect(third.get(bag)).toEqual({ length: 3 })
    await third.close()
  })

  test('with one bad value keeps all others', async () => {
    const store = await openStore()
    store.learn(bag, { length: 3 })
    await store.close()
    const database = new ClassicLevel(path())
    await database.open()
    await database.put('cut', '{"length":')
    await database.put('wrong', '{"length":"x"}')
    await database.close()
    const warnings: string[] = []
    const again = await openStore(warnings)
    expect(again.get(bag)).toEqual({ length: 3 })
    expect(again.get(toBagId('wrong'))).toBeUndefined()
    expect(warnings).toHaveLength(2)
    await again.close()
  })
})

test('a place where no store can be is an error, and nothing is moved', async () => {
  await writeFile(join(dir.path, 'facts'), 'in the way')
  await expect(openStore()).rejects.toMatchObject({ code: 'local-io' })
  expect(await readdir(dir.path)).toEqual(['facts'])
})
