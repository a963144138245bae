import { statSync } from 'node:fs'
import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { openArchive } from '../../../src/zip/archive.ts'
import { openMember, readMember, readMemberNow } from '../../../src/zip/content.ts'
import type { DeflatedContent } from '../../../src/zip/content.ts'
import type { UncompressedContent } from '../../../src/zip/uncompressed-content.ts'
import {
  brokenSource,
  contentOf,
  leafAt,
  LIMITS,
  nearSource,
  openBytes,
  rawZip,
  tempDir,
} from './support.ts'
import type { RawEntry } from './support.ts'

const LONG = Buffer.from('a line of text that deflates well\n'.repeat(30_000))

async function stored(entry: Partial<RawEntry>): Promise<UncompressedContent> {
  const archive = await openBytes(rawZip([{ name: 'f', ...entry }]))
  const content = await openMember(archive, leafAt(archive, 'f'))
  if (content.kind !== 'uncompressed') throw new Error('a stored entry')
  return content
}

async function deflated(entry: Partial<RawEntry>): Promise<DeflatedContent> {
  const archive = await openBytes(rawZip([{ name: 'f', deflate: true, ...entry }]))
  const content = await openMember(archive, leafAt(archive, 'f'))
  if (content.kind !== 'deflated') throw new Error('a deflated entry')
  return content
}

async function openOutcome(entry: Partial<RawEntry>): Promise<unknown> {
  const archive = await openBytes(rawZip([{ name: 'f', ...entry }]))
  return openMember(archive, leafAt(archive, 'f'))
}

async function read(
  content: UncompressedContent,
  position: number,
  length: number,
): Promise<string> {
  const buffer = Buffer.alloc(length)
  return buffer.toString('utf8', 0, await content.readAt(buffer, position))
}

describe('a stored entry', () => {
  it('is read in place, at any position and not beyond its end', async () => {
    const content = await stored({ content: '0123456789' })
    expect(await read(content, 7, 100)).toBe('789')
    expect(await read(content, 2, 3)).toBe('234')
    expect(await read(content, 10, 5)).toBe('')
    expect(await read(content, 99, 5)).toBe('')
  })

  it('is found behind a local header of another length than its record', async () => {
    const localExtra = Buffer.from([0x99, 0x99, 4, 0, 1, 2, 3, 4])
    expect(await read(await stored({ content: 'here', localExtra }), 0, 4)).toBe('here')
  })

  it('fails the read that completes a wrong checksum, and every read after', async () => {
    const content = await stored({ content: '0123456789', crc: 1 })
    expect(await read(content, 0, 5)).toBe('01234')
    expect(await read(content, 3, 5)).toBe('34567')
    await expect(read(content, 8, 5)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(read(content, 0, 1)).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('is corrupt where the source ends within it', async () => {
    const source = brokenSource(rawZip([{ name: 'f', content: LONG }]), { from: 5000 })
    const archive = await openArchive(source, { limits: LIMITS })
    const content = await openMember(archive, leafAt(archive, 'f'))
    if (content.kind !== 'uncompressed') throw new Error('a stored entry')
    source.isBroken = true
    expect(await read(content, 0, 1000)).toHaveLength(1000)
    await expect(read(content, 4000, 2000)).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('fails each read of nothing that has a checksum', async () => {
    const empty = await stored({ content: '', crc: 1 })
    await expect(read(empty, 0, 1)).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('is corrupt behind a local header without its signature', async () => {
    const bytes = rawZip([{ name: 'f', content: 'abc' }])
    bytes[0] = 0
    const archive = await openBytes(bytes)
    const promise = openMember(archive, leafAt(archive, 'f'))
    await expect(promise).rejects.toMatchObject({ code: 'corrupt' })
  })

  it.each([
    ['two different sizes', { content: 'abc', size: 4 }],
    ['data beyond the end', { content: 'abc', size: 5000, compressedSize: 5000 }],
    ['no local header', { content: 'abc', offset: 3 }],
    ['an offset beyond the end', { content: 'abc', offset: 0xfffffff0 }],
  ])('is corrupt with %s', async (_what, entry) => {
    await expect(openOutcome(entry)).rejects.toMatchObject({ code: 'corrupt' })
  })
})

describe('a deflated entry', () => {
  it.each([
    ['small', Buffer.from('small '.repeat(10))],
    ['empty', Buffer.alloc(0)],
    ['large', LONG],
  ])('is inflated to a file when it is %s, telling how far it is', async (_size, content) => {
    const path = join(await tempDir(), 'out')
    const progress: number[] = []
    const entry = await deflated({ content })
    await entry.inflateTo(path, { onProgress: (bytes) => progress.push(bytes) })
    expect((await readFile(path)).equals(content)).toBe(true)
    expect(progress.at(-1)).toBe(content.length)
    expect(progress).toEqual([...progress].sort((a, b) => a - b))
  })

  it('can be read up to what was told while the rest is inflated', async () => {
    const path = join(await tempDir(), 'out')
    const seen: Promise<boolean>[] = []
    const onProgress = (bytes: number): void => {
      const matches = async (): Promise<boolean> => {
        const now = await readFile(path)
        return now.subarray(0, bytes).equals(LONG.subarray(0, bytes)) && now.length >= bytes
      }
      seen.push(matches())
    }
    await (await deflated({ content: LONG })).inflateTo(path, { onProgress })
    expect(seen.length).toBeGreaterThan(1)
    expect(await Promise.all(seen)).not.toContain(false)
  })

  const trailing = Buffer.concat([deflateRawSync(LONG), Buffer.alloc(600_000, 7)])

  it.each([
    ['a wrong checksum', { content: 'text', crc: 1 }, 'corrupt'],
    ['a wrong checksum of large content', { content: LONG, crc: 1 }, 'corrupt'],
    [
      'no deflated data',
      { content: Buffer.alloc(100, 0xff), deflate: false, method: 8 },
      'corrupt',
    ],
    [
      'no deflated data, large',
      { content: Buffer.alloc(300_000, 0xff), deflate: false, method: 8 },
      'corrupt',
    ],
    ['cut data', { content: LONG, compressedSize: 20, size: LONG.length }, 'corrupt'],
    ['less than it tells', { content: LONG, size: LONG.length + 1 }, 'corrupt'],
    ['more than it tells', { content: LONG, size: LONG.length - 1 }, 'too-large'],
    ['more than it tells, small', { content: 'a'.repeat(1000), size: 999 }, 'too-large'],
    ['something instead of nothing', { content: 'a', size: 0 }, 'too-large'],
  ] as const)('with %s fails and leaves nothing behind', async (_what, entry, code) => {
    const path = join(await tempDir(), 'out')
    const content = await deflated(entry)
    await expect(content.inflateTo(path)).rejects.toMatchObject({ code })
    await expect(access(path)).rejects.toThrow('ENOENT')
  })

  it('ignores what stands behind the end of its data', async () => {
    const path = join(await tempDir(), 'out')
    const entry = { content: trailing, deflate: false, method: 8 }
    await (await deflated({ ...entry, size: LONG.length, crc: crc32(LONG) })).inflateTo(path)
    expect((await readFile(path)).equals(LONG)).toBe(true)
  })

  it('has holes for its zeros, and everything else in its place', async () => {
    const path = join(await tempDir(), 'out')
    const zeros = Buffer.alloc(3_000_000)
    const bytes = Buffer.concat([zeros, LONG, zeros])
    const readable: number[] = []
    const content = await deflated({ content: bytes })
    await content.inflateTo(path, {
      onProgress: (count) => {
        readable.push(count - statSync(path).size)
      },
    })
    expect((await readFile(path)).equals(bytes)).toBe(true)
    expect(statSync(path).blocks * 512).toBeLessThan(LONG.length + 1_000_000)
    expect(readable.every((missing) => missing <= 0)).toBe(true)
  })

  it('asks for room before each write, and leaves nothing behind where there is none', async () => {
    const path = join(await tempDir(), 'out')
    const noise = Buffer.from(Array.from({ length: 700_000 }, (_, i) => Math.imul(i * i, i) >>> 13))
    let left = 500_000
    const content = await deflated({ content: noise })
    const makeRoom = (bytes: number): Promise<void> => {
      left -= bytes
      return left >= 0 ? Promise.resolve() : Promise.reject(new DriveError('local-disk-full', ''))
    }
    await expect(content.inflateTo(path, { makeRoom })).rejects.toMatchObject({
      code: 'local-disk-full',
    })
    await expect(access(path)).rejects.toThrow('ENOENT')
  })

  it('stops when it is aborted and leaves nothing behind', async () => {
    const path = join(await tempDir(), 'out')
    const abort = new AbortController()
    const content = await deflated({ content: LONG })
    const onProgress = (): void => {
      abort.abort()
    }
    const promise = content.inflateTo(path, { onProgress, signal: abort.signal })
    await expect(promise).rejects.toMatchObject({ code: 'interrupted' })
    await expect(access(path)).rejects.toThrow('ENOENT')
  })

  it('tells when the source fails in the middle', async () => {
    const noise = Buffer.from(Array.from({ length: 700_000 }, (_, i) => Math.imul(i * i, i) >>> 13))
    const bytes = rawZip([{ name: 'f', content: noise, deflate: true }])
    const error = new DriveError('unavailable', 'Cut.')
    const source = brokenSource(bytes, { from: 400_000, error })
    const archive = await openArchive(source, { limits: LIMITS })
    const content = await openMember(archive, leafAt(archive, 'f'))
    if (content.kind !== 'deflated') throw new Error('a deflated entry')
    source.isBroken = true
    const path = join(await tempDir(), 'out')
    await expect(content.inflateTo(path)).rejects.toBe(error)
    await expect(access(path)).rejects.toThrow('ENOENT')
  })

  it('tells when the disk refuses', async () => {
    const content = await deflated({ content: LONG })
    const promise = content.inflateTo(join(await tempDir(), 'missing', 'out'))
    await expect(promise).rejects.toMatchObject({ code: 'local-io' })
  })
})

describe('opening an entry', () => {
  it.each([
    ['encrypted', { flags: 1 }, 'forbidden'],
    ['of an unknown method', { method: 14 }, 'unsupported'],
    ['of Deflate64', { method: 9 }, 'unsupported'],
    ['a bomb by its ratio', { method: 8, content: 'x', size: 100_000_001 }, 'too-large'],
  ])('fails when it is %s', async (_what, entry, code) => {
    await expect(openOutcome(entry)).rejects.toMatchObject({ code })
  })

  it.each([5_000_000, 150_000_000])('lets %i zeros pass, which deflate best', async (length) => {
    const content = Buffer.alloc(length)
    const archive = await openBytes(rawZip([{ name: 'f', deflate: true, content }]))
    const node = leafAt(archive, 'f')
    expect(node.member.size / node.member.compressedSize).toBeGreaterThan(1000)
    expect((await contentOf(archive, node, await tempDir())).equals(content)).toBe(true)
  })

  it('lets entries overlap', async () => {
    const entries = [
      { name: 'a', content: 'same' },
      { name: 'b', content: 'same', offset: 0 },
    ]
    const archive = await openBytes(rawZip(entries))
    const dir = await tempDir()
    for (const name of ['a', 'b']) {
      expect((await contentOf(archive, leafAt(archive, name), dir)).toString()).toBe('same')
    }
  })
})

describe('an entry that is at hand', () => {
  const zip = rawZip([
    { name: 's', content: '0123456789' },
    { name: 'd', content: 'deflated', deflate: true },
    { name: 'wrong', content: 'other', crc: 1 },
  ])

  it('is read whole at once, and checked', async () => {
    const archive = await openArchive(nearSource(zip, { from: 0, to: zip.length }), {
      limits: LIMITS,
    })
    const readNow = (name: string, maxBytes = 100): string | undefined =>
      readMemberNow(archive, leafAt(archive, name), { maxBytes })?.toString()
    expect(readNow('s')).toBe('0123456789')
    expect(readNow('d')).toBe('deflated')
    expect(() => readNow('wrong')).toThrow(expect.objectContaining({ code: 'corrupt' }))
    expect(() => readNow('s', 9)).toThrow(expect.objectContaining({ code: 'too-large' }))
  })

  it('is not taken for one when some of it is not', async () => {
    for (const near of [
      { from: 0, to: 0 },
      { from: 0, to: 32 },
    ]) {
      const archive = await openArchive(nearSource(zip, near), { limits: LIMITS })
      expect(readMemberNow(archive, leafAt(archive, 's'), { maxBytes: 100 })).toBeUndefined()
    }
  })

  it('is read in place at once, within its bounds, and checked by the way', async () => {
    const source = nearSource(zip, { from: 0, to: zip.length })
    const archive = await openArchive(source, { limits: LIMITS })
    const open = async (name: string): Promise<UncompressedContent> => {
      const content = await openMember(archive, leafAt(archive, name))
      if (content.kind !== 'uncompressed') throw new Error('a stored entry')
      return content
    }
    const content = await open('s')
    const buffer = Buffer.alloc(8)
    expect(content.readNow(buffer, 0)).toBe(8)
    expect(buffer.toString()).toBe('01234567')
    expect(content.readNow(buffer, 8)).toBe(2)
    expect(content.readNow(buffer, 10)).toBe(0)
    const wrong = await open('wrong')
    expect(() => wrong.readNow(buffer, 0)).toThrow(expect.objectContaining({ code: 'corrupt' }))
  })
})

describe('readEntry', () => {
  it('reads small entries whole and refuses others without reading their data', async () => {
    const archive = await openBytes(
      rawZip([
        { name: 's', content: 'stored' },
        { name: 'd', content: 'deflated', deflate: true },
        { name: 'padded', content: Buffer.alloc(500_000), method: 8, size: 10 },
      ]),
    )
    const readText = async (name: string, maxBytes: number): Promise<string> =>
      (await readMember(archive, leafAt(archive, name), { maxBytes })).toString()
    expect(await readText('s', 6)).toBe('stored')
    expect(await readText('d', 8)).toBe('deflated')
    await expect(readText('s', 5)).rejects.toMatchObject({ code: 'too-large' })
    await expect(readText('padded', 100)).rejects.toMatchObject({ code: 'too-large' })
  })
})
