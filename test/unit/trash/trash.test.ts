import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { toBagId, type BagId } from '../../../src/domain/ids.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { findItem, nameItems } from '../../../src/trash/item-names.ts'
import type { TrashItem } from '../../../src/trash/item.ts'
import { Trash, type SharedDisk, type TrashSettings } from '../../../src/trash/trash.ts'
import { TrashFiles } from '../../../src/trash/trash-files.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

const DAY_MS = 86_400_000

let dir: string
let clock: ManualClock
beforeEach(() => {
  const base = mkdtempSync(join(tmpdir(), 'bagfs-trash-'))
  dir = join(base, 'trash')
  clock = new ManualClock()
  onTestFinished(() => {
    rmSync(base, { recursive: true })
  })
})

const disk = (spare: () => number, evict: () => boolean = () => false): SharedDisk => ({
  spareBytes: () => Promise.resolve(spare()),
  evictOne: () => Promise.resolve(evict()),
})
const plenty = disk(() => 1e9)

async function open(shared = plenty, settings: Partial<TrashSettings> = {}): Promise<Trash> {
  const trash = await Trash.open(
    { clock, log: silentLogger, disk: shared },
    { dir, keptMs: DAY_MS, maxBytes: 1e6, ...settings },
  )
  onTestFinished(() => trash.close())
  return trash
}

const id = (letter: string): BagId => toBagId(letter.repeat(64))

function add(
  trash: Trash,
  letter: string,
  more: Partial<TrashItem> = {},
  options: Parameters<Trash['add']>[1] = {},
): TrashItem {
  const content = `content of ${letter}`
  const bagId = id(letter)
  writeFileSync(trash.files.contentPath(bagId), content)
  const item: TrashItem = {
    ...{ bagId, name: letter, why: 'deleted', isFolder: false, description: '' },
    ...{ length: content.length, mtimeMs: 0, deletedAtMs: clock.now() },
    ...more,
  }
  trash.add(item, options)
  return item
}

const names = (trash: Trash): readonly string[] => trash.items().map(({ name }) => name)

describe('what is kept', () => {
  it('goes when its time is over, also when that was while no drive was mounted', async () => {
    const trash = await open()
    add(trash, 'a')
    clock.move(DAY_MS / 2)
    add(trash, 'b')
    expect(names(trash)).toEqual(['b', 'a'])
    clock.move(DAY_MS / 2 + 60_000)
    await trash.tidy()
    expect(names(trash)).toEqual(['b'])
    await trash.close()
    expect(readdirSync(join(dir, 'v1'))).toHaveLength(2)
    clock.move(DAY_MS)
    expect(names(await open())).toEqual([])
    expect(readdirSync(join(dir, 'v1'))).toEqual([])
  })

  it('gives way, the oldest first, once the cache has nothing left to give', async () => {
    // The disk lacks the room of one item beside what the cache can give.
    let inCache = 2
    let kept = (): number => 0
    const spare = (): number => 1 - inCache - kept()
    const evict = (): boolean => {
      if (inCache === 0) return false
      inCache -= 1
      return true
    }
    const trash = await open(disk(spare, evict))
    kept = () => trash.items().length
    add(trash, 'a')
    clock.move(1)
    add(trash, 'b')
    await trash.tidy()
    expect(inCache).toBe(0)
    expect(names(trash)).toEqual(['b'])
    expect(trash.report()).toMatchObject({ items: 1, givenUp: 1 })
  })

  it('gives nothing up before new content is here, and then as much as that needs of the disk', async () => {
    let inCache = 20
    let spare = 0
    const evict = (): boolean => {
      if (inCache === 0) return false
      inCache -= 10
      spare += 10
      return true
    }
    const trash = await open(disk(() => spare, evict))
    expect(await trash.canTake(30)).toBe(false)
    add(trash, 'a')
    expect(await trash.canTake(30)).toBe(true)
    expect(await trash.canTake(1e6)).toBe(false)
    expect({ inCache, items: names(trash) }).toEqual({ inCache: 0, items: ['a'] })
    spare -= 30
    trash.onChange(() => {
      if (!names(trash).includes('a')) spare = 0
    })
    clock.move(1)
    add(trash, 'b', {}, { isNewHere: true })
    clock.move(0)
    await expect.poll(() => names(trash)).toEqual(['b'])
  })

  it('is one item however often the same bag is deleted, of the last time', async () => {
    const trash = await open()
    add(trash, 'a')
    add(trash, 'b')
    clock.move(1_000)
    const again = add(trash, 'a', { why: 'replaced', deletedAtMs: clock.now() })
    expect(trash.items()).toHaveLength(2)
    expect(trash.items()[0]).toEqual(again)
    await trash.close()
    expect((await open()).items()[0]).toEqual(again)
  })
})

describe('what a kill or a power cut left', () => {
  it('is taken up where it is whole, and else removed', async () => {
    const trash = await open()
    add(trash, 'a')
    for (const letter of ['b', 'c', 'd']) add(trash, letter)
    await trash.close()
    const path = (letter: string): string => trash.files.contentPath(id(letter))
    rmSync(`${path('b')}.json`)
    writeFileSync(path('c'), 'cut')
    writeFileSync(`${path('d')}.json`, '{"half":')
    writeFileSync(`${path('e')}.fetched`, 'a part')
    writeFileSync(`${path('f')}.going-1`, 'given up')
    expect((await TrashFiles.read(dir)).map(({ name }) => name)).toEqual(['a'])
    expect(readdirSync(join(dir, 'v1')).length).toBeGreaterThan(2)
    expect(names(await open())).toEqual(['a'])
    expect(readdirSync(join(dir, 'v1')).sort()).toEqual([id('a'), `${id('a')}.json`])
  })

  it('is not given back when it is not what was kept', async () => {
    const trash = await open()
    const item = add(trash, 'a', { sha256: '0'.repeat(64) })
    const copy = join(dir, '..', 'copy')
    await expect(trash.files.copyTo(item, copy)).rejects.toMatchObject({ code: 'corrupt' })
    expect(existsSync(copy)).toBe(false)
    expect(names(trash)).toEqual(['a'])
  })
})

it('the trash is private', async () => {
  const trash = await open()
  add(trash, 'a')
  expect(statSync(dir).mode & 0o777).toBe(0o700)
  expect(statSync(join(dir, 'v1')).mode & 0o777).toBe(0o700)
  expect(statSync(`${trash.files.contentPath(id('a'))}.json`).mode & 0o777).toBe(0o600)
})

describe('an item', () => {
  it('is found by its name, by what it shows as, and by enough of its id', async () => {
    const trash = await open()
    const older = add(trash, 'a', { name: 'report.odt' })
    clock.move(5_000)
    const newer = add(trash, 'b', { name: 'report.odt', deletedAtMs: clock.now() })
    const found = (wanted: string): unknown => findItem(trash.items(), wanted)
    expect(found('report.odt')).toBe(newer)
    expect(found('aaaaaaaa')).toBe(older)
    expect(found('aaaaaaa')).toBeUndefined()
    expect(found(id('a'))).toBe(older)
    expect(found('other')).toBeUndefined()
  })

  it('is found by what is printed of it, whatever else is or was in the trash', async () => {
    const trash = await open()
    const first = add(trash, 'a', { name: 'note.txt' })
    const second = add(trash, 'b', { name: 'note.txt' })
    const folder = add(trash, 'c', { name: 'Docs', isFolder: true })
    const coded = add(trash, 'd', { name: 'a\tb' })
    const found = (wanted: string): unknown => findItem(trash.items(), wanted)
    for (const [name] of nameItems([first, second, folder, coded])) {
      const plain = name.slice('2026-11-23 18.02.05 '.length)
      for (const each of [name, `.bagfs/trash/${name}`, plain]) expect(found(each)).toBeDefined()
    }
    expect(found('Docs.zip')).toBe(folder)
    expect(found('Docs (cccccccc)')).toBe(folder)
    const [zip = ''] = nameItems([folder]).keys()
    expect(found(zip.slice(0, -'.zip'.length))).toBe(folder)
    expect(found('note (aaaaaaaa).txt')).toBe(first)
    expect(found('note (bbbbbbbb).txt')).toBe(second)
    expect(found('a‛09b')).toBe(coded)
  })
})
