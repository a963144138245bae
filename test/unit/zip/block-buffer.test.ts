import { mkdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { blockBuffered } from '../../../src/zip/block-buffer.ts'
import { openArchive } from '../../../src/zip/archive.ts'
import { readMember } from '../../../src/zip/content.ts'
import { fileSource, readExactly, readPiecesAhead } from '../../../src/zip/source.ts'
import type { RandomAccessSource } from '../../../src/zip/source.ts'
import {
  brokenSource,
  bytesSource,
  leafAt,
  LIMITS,
  nearSource,
  rawZip,
  tempDir,
} from './support.ts'

const BYTES = Uint8Array.from({ length: 1000 }, (_, index) => index % 251)
const SETTINGS = { blockBytes: 100, maxBlocks: 3 }

/** A source whose reads wait until they are let go, and which stop when they are aborted. */
function gatedSource() {
  const waiting: { go: () => void; fail: (error: unknown) => void; aborted: boolean }[] = []
  return {
    length: BYTES.length,
    waiting,
    read: (buffer: Uint8Array, position: number, signal?: AbortSignal): Promise<number> =>
      new Promise((resolve, reject) => {
        const gate = {
          aborted: false,
          fail: reject,
          go: () => {
            const piece = BYTES.subarray(position, position + buffer.length)
            buffer.set(piece)
            resolve(piece.length)
          },
        }
        signal?.addEventListener('abort', () => {
          gate.aborted = true
          reject(new DriveError('interrupted', 'Aborted.'))
        })
        waiting.push(gate)
      }),
  }
}

describe('blockBuffered', () => {
  it('gives the same bytes as the source, for any reads', async () => {
    const read = fc.record({ position: fc.nat(1100), length: fc.nat(350) })
    await fc.assert(
      fc.asyncProperty(fc.array(read, { maxLength: 20 }), async (reads) => {
        const buffered = blockBuffered(bytesSource(BYTES), SETTINGS)
        for (const { position, length } of reads) {
          const target = new Uint8Array(length)
          const filled = await buffered.read(target, position)
          const wanted = BYTES.subarray(position, position + length)
          expect(Buffer.from(target.subarray(0, filled)).equals(wanted)).toBe(true)
        }
      }),
    )
  })

  it('reads a block once for many small reads, and again when it was dropped', async () => {
    const source = bytesSource(BYTES)
    const buffered = blockBuffered(source, SETTINGS)
    const one = new Uint8Array(1)
    for (let position = 0; position < 100; position += 1) await buffered.read(one, position)
    expect(source.reads).toEqual([100])
    for (const position of [100, 200, 300, 0]) await buffered.read(one, position)
    expect(source.reads).toEqual([100, 100, 100, 100, 100])
  })

  it('shares one fetch among readers, and one that gives up does not stop it', async () => {
    const source = gatedSource()
    const buffered = blockBuffered(source, SETTINGS)
    const abort = new AbortController()
    const leaves = buffered.read(new Uint8Array(5), 0, abort.signal)
    const stays = buffered.read(new Uint8Array(5), 50)
    abort.abort()
    await expect(leaves).rejects.toMatchObject({ code: 'interrupted' })
    expect(source.waiting.map((gate) => gate.aborted)).toEqual([false])
    source.waiting[0]?.go()
    expect(await stays).toBe(5)
  })

  it('aborts a fetch that nobody waits for, and fetches anew for the next reader', async () => {
    const source = gatedSource()
    const buffered = blockBuffered(source, SETTINGS)
    const abort = new AbortController()
    const leaves = buffered.read(new Uint8Array(5), 0, abort.signal)
    abort.abort()
    await expect(leaves).rejects.toMatchObject({ code: 'interrupted' })
    expect(source.waiting[0]?.aborted).toBe(true)
    const next = buffered.read(new Uint8Array(5), 0)
    source.waiting[1]?.go()
    expect(await next).toBe(5)
  })

  it('forgets a fetch that failed', async () => {
    const source = gatedSource()
    const buffered = blockBuffered(source, SETTINGS)
    const fails = buffered.read(new Uint8Array(5), 0)
    source.waiting[0]?.fail(new DriveError('unavailable', 'Cut.'))
    await expect(fails).rejects.toMatchObject({ code: 'unavailable' })
    const next = buffered.read(new Uint8Array(5), 0)
    source.waiting[1]?.go()
    expect(await next).toBe(5)
  })

  it('does not keep a block that came short', async () => {
    const source = brokenSource(BYTES, { from: 10 })
    const buffered = blockBuffered(source, SETTINGS)
    source.isBroken = true
    expect(await buffered.read(new Uint8Array(50), 0)).toBe(10)
    source.isBroken = false
    expect(await buffered.read(new Uint8Array(50), 0)).toBe(50)
  })

  it('opens a zip and reads one entry in the middle with little of it', async () => {
    const filler = Buffer.alloc(2_000_000)
    const bytes = rawZip([
      { name: 'before', content: filler },
      { name: 'small', content: 'small text', deflate: true },
      { name: 'after', content: filler },
    ])
    const source = bytesSource(bytes)
    const buffered = blockBuffered(source, { blockBytes: 64 * 1024, maxBlocks: 16 })
    const archive = await openArchive(buffered, { limits: LIMITS })
    const content = await readMember(archive, leafAt(archive, 'small'), { maxBytes: 100 })
    expect(content.toString()).toBe('small text')
    expect(source.reads.reduce((sum, length) => sum + length, 0)).toBeLessThan(400_000)
  })
})

describe('bytes at hand', () => {
  it('are read from the source itself, and make no block', async () => {
    const source = nearSource(BYTES, { from: 0, to: 500 })
    const buffered = blockBuffered(source, SETTINGS)
    const target = new Uint8Array(10)
    expect(buffered.readNow?.(target, 20)).toBe(10)
    expect(await buffered.read(target, 30)).toBe(10)
    expect([...target]).toEqual([...BYTES.subarray(30, 40)])
    expect(source.waits).toBe(0)
    expect(buffered.readNow?.(target, 495)).toBeUndefined()
    expect(await buffered.read(target, 495)).toBe(10)
    expect([...target]).toEqual([...BYTES.subarray(495, 505)])
    expect(source.waits).toBeGreaterThan(0)
  })
})

describe('readPiecesAhead', () => {
  const ahead = (source: RandomAccessSource, length: number, pieceBytes: number) =>
    readPiecesAhead(source, { position: 7, length }, { pieceBytes })

  it('gives the same bytes, each piece whole until the next is asked for', async () => {
    for (const [length, pieceBytes] of [
      [0, 10],
      [9, 10],
      [10, 10],
      [11, 10],
      [503, 100],
    ] as const) {
      const pieces: Buffer[] = []
      for await (const piece of ahead(bytesSource(BYTES), length, pieceBytes)) {
        // The next one may have been read by now.
        await new Promise(setImmediate)
        pieces.push(Buffer.from(piece))
      }
      expect(Buffer.concat(pieces).equals(BYTES.subarray(7, 7 + length))).toBe(true)
    }
  })

  it('reads a piece while the one before is handled', async () => {
    const source = gatedSource()
    const pieces = ahead(source, 30, 10)
    const first = pieces.next()
    await expect.poll(() => source.waiting.length).toBe(2)
    source.waiting[0]?.go()
    expect((await first).done).toBe(false)
    const end = pieces.return(undefined)
    source.waiting[1]?.go()
    await end
    expect(source.waiting).toHaveLength(2)
  })

  it('is corrupt where the source ends before', async () => {
    const all = async (length: number): Promise<void> => {
      for await (const piece of ahead(bytesSource(BYTES), length, 100)) {
        expect(piece.length).toBeGreaterThan(0)
      }
    }
    await expect(all(994)).rejects.toMatchObject({ code: 'corrupt' })
  })
})

describe('fileSource', () => {
  it('tells missing files and directories as a DriveError', async () => {
    const dir = await tempDir()
    await mkdir(join(dir, 'sub'))
    await expect(fileSource(join(dir, 'missing'))).rejects.toMatchObject({ code: 'local-io' })
    const directory = await fileSource(join(dir, 'sub'))
    const reading = directory.read(new Uint8Array(1), 0)
    await expect(reading).rejects.toMatchObject({ code: 'local-io' })
    await directory.close()
  })

  it('is corrupt where it ends before its length', async () => {
    const path = join(await tempDir(), 'file')
    await writeFile(path, BYTES)
    const source = await fileSource(path)
    await truncate(path, 500)
    await expect(readExactly(source, 400, 200)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(readExactly(source, 0, 2 ** 50)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(readExactly(source, 900, 200)).rejects.toMatchObject({ code: 'corrupt' })
    expect(await readExactly(source, 400, 100)).toHaveLength(100)
    await source.close()
  })
})
