import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { DriveError } from '../../../../src/domain/errors.ts'
import { InflatedFiles, type Inflate } from '../../../../src/drive/folders/inflated-files.ts'
import type { Source } from '../../../../src/drive/tree/source.ts'

const MAX_BYTES = 1_000

describe('inflated content', () => {
  let dir: string
  let files: InflatedFiles
  let inflations: number
  /** What the disk takes; more when content is removed from the cache. */
  let spare: number
  let cached: number
  const room = {
    spareBytes: () => Promise.resolve(spare - kept() * MAX_BYTES),
    evictOne: () => {
      const evicted = cached > 0
      cached -= MAX_BYTES
      if (evicted) spare += MAX_BYTES
      return Promise.resolve(evicted)
    },
  }
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-inflated-'))
    spare = Infinity
    cached = 0
    files = await InflatedFiles.open({ dir, maxBytes: MAX_BYTES, room })
    inflations = 0
  })
  afterEach(() => {
    rmSync(dir, { recursive: true, force: true })
  })

  const write =
    (content: string): Inflate =>
    async (path, { onProgress, makeRoom }) => {
      await makeRoom(content.length)
      inflations += 1
      await writeFile(path, content)
      onProgress(content.length)
    }
  const openFile = (key: string, content: string): Source =>
    files.open(key, content.length, write(content))
  const readAll = async (source: Source): Promise<string> => {
    const buffer = Buffer.alloc(5_000)
    return buffer.subarray(0, await source.read(buffer, 0)).toString()
  }
  const kept = (): number => readdirSync(join(dir, 'v1')).length

  it('is made once and kept, also for the next process', async () => {
    for (let round = 0; round < 3; round += 1) {
      if (round === 2) files = await InflatedFiles.open({ dir, maxBytes: MAX_BYTES, room })
      const source = openFile('a', 'x'.repeat(900))
      expect(await readAll(source)).toBe('x'.repeat(900))
      source.close()
    }
    expect(inflations).toBe(1)
    expect(kept()).toBe(1)
  })

  it('that is larger than the bound is shared by its readers, and gone with the last', async () => {
    const large = 'y'.repeat(MAX_BYTES + 1)
    const [one, other] = [openFile('large', large), openFile('large', large)]
    expect(await readAll(one)).toBe(large)
    const late = openFile('large', large)
    one.close()
    other.close()
    expect(await readAll(late)).toBe(large)
    expect(inflations).toBe(1)
    expect(kept()).toBe(1)
    late.close()
    expect(kept()).toBe(0)
    const again = openFile('large', large)
    expect(await readAll(again)).toBe(large)
    again.close()
    expect(inflations).toBe(2)
    expect(kept()).toBe(0)
  })

  it('stays while a program has it open, whatever else comes', async () => {
    const content = 'x'.repeat(900)
    const early = openFile('open', content)
    const other = openFile('other', 'y'.repeat(900))
    await readAll(other)
    await expect.poll(() => inflations).toBe(2)
    other.close()
    const third = openFile('third', 'z'.repeat(900))
    await readAll(third)
    third.close()
    while (files.evictOne());
    expect(await readAll(early)).toBe(content)
    const late = openFile('open', content)
    expect(await readAll(late)).toBe(content)
    expect(inflations).toBe(3)
    for (const source of [early, late]) source.close()
    expect(kept()).toBe(1)
    const again = openFile('open', content)
    expect(await readAll(again)).toBe(content)
    expect(inflations).toBe(3)
    again.close()
  })

  it('that is larger than a smaller bound of later is removed at the start', async () => {
    const source = openFile('a', 'x'.repeat(900))
    await readAll(source)
    source.close()
    await InflatedFiles.open({ dir, maxBytes: 100, room })
    expect(kept()).toBe(0)
  })

  it('gives way to what the disk has no room for beside it, and then the cache does', async () => {
    const idle = openFile('idle', 'x'.repeat(900))
    await readAll(idle)
    idle.close()
    expect(kept()).toBe(1)
    cached = 2 * MAX_BYTES
    spare = -MAX_BYTES
    const source = openFile('wanted', 'y')
    expect(await readAll(source)).toBe('y')
    source.close()
    // The first for what was asked, and the rest since it was still too little.
    expect({ cached, kept: kept() }).toEqual({ cached: -MAX_BYTES, kept: 1 })
  })

  it('that the disk has no room for above its floor is refused, but for a little', async () => {
    spare = 0
    const little = openFile('little', 'y')
    expect(await readAll(little)).toBe('y')
    little.close()
    let written = 0
    const endless: Inflate = async (_path, { makeRoom }) => {
      for (;;) {
        await makeRoom(1 << 20)
        written += 1 << 20
      }
    }
    const source = files.open('large', 1 << 30, endless)
    await expect(source.read(Buffer.alloc(1), 0)).rejects.toMatchObject({ code: 'local-disk-full' })
    expect(written).toBe(16 << 20)
    source.close()
  })

  it('that cannot be made is an error of its readers, and of no other', async () => {
    const source = files.open('bad', 10, () => Promise.reject(new DriveError('corrupt', 'Bad.')))
    await expect(readAll(source)).rejects.toMatchObject({ code: 'corrupt' })
    source.close()
    const again = openFile('bad', 'now right.')
    expect(await readAll(again)).toBe('now right.')
    again.close()
  })
})
