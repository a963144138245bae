import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { DriveError } from '../../../../src/domain/errors.ts'
import { InflatedFiles, type Inflate } from '../../../../src/drive/folder/inflated-files.ts'
import type { Source } from '../../../../src/drive/source.ts'

const MAX_BYTES = 1_000

describe('inflated content', () => {
  let dir: string
  let files: InflatedFiles
  let inflations: number
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-inflated-'))
    files = await InflatedFiles.open({ dir, maxBytes: MAX_BYTES })
    inflations = 0
  })
  afterEach(() => {
    rmSync(dir, { recursive: true, force: true })
  })

  const write =
    (content: string): Inflate =>
    async (path, { onProgress }) => {
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
      if (round === 2) files = await InflatedFiles.open({ dir, maxBytes: MAX_BYTES })
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

  it('that is larger than a smaller bound of later is removed at the start', async () => {
    const source = openFile('a', 'x'.repeat(900))
    await readAll(source)
    source.close()
    await InflatedFiles.open({ dir, maxBytes: 100 })
    expect(kept()).toBe(0)
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
