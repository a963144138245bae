import { execFile } from 'node:child_process'
import { access, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import unzipper from 'unzipper'
import { describe, expect, it } from 'vitest'
import { openArchive } from '../../../src/zip/archive.ts'
import { filePieces } from '../../../src/zip/file-pieces.ts'
import { readLinkTargets } from '../../../src/zip/links.ts'
import { pack } from '../../../src/zip/pack.ts'
import type { PlanItem } from '../../../src/zip/plan.ts'
import { fileSource } from '../../../src/zip/source.ts'
import { nodeAt, pathOf, walkTree } from '../../../src/zip/tree.ts'
import { writeArchive } from '../../../src/zip/write.ts'
import { OWN_COMMENT } from '../../../src/zip/zip-format.ts'
import { noiseOf } from '../../support/seed.ts'
import {
  archiverZip,
  contentOf,
  extraField,
  fileOf,
  leafAt,
  LIMITS,
  openBytes,
  pathsOf,
  rawZip,
  tempDir,
} from './support.ts'

const run = promisify(execFile)
/** Info-ZIP compares names as the locale has them. */
const IN_UTF8 = { env: { ...process.env, LC_ALL: 'C.UTF-8' } }
const MTIME_MS = Date.UTC(2024, 4, 6, 7, 8, 9)

const directoryItem = (path: string, mode = 0o755): PlanItem => ({
  path,
  type: 'directory',
  mode,
  mtimeMs: MTIME_MS,
})

async function fileItem(dir: string, path: string, content: string | Buffer): Promise<PlanItem> {
  const name = createHash('sha256').update(path).digest('hex')
  const from = await fileOf(dir, name, content)
  return { path, type: 'file', mode: 0o644, mtimeMs: MTIME_MS, content: from }
}

async function zipOf(dir: string, plan: readonly PlanItem[], name = 'out.zip'): Promise<Buffer> {
  await writeArchive(plan, join(dir, name))
  return readFile(join(dir, name))
}

/** What a tree holds, to compare with what went in. */
async function inventory(bytes: Buffer, dir: string): Promise<Record<string, unknown>> {
  const archive = await openBytes(bytes)
  const found: Record<string, unknown> = {}
  for (const node of walkTree(archive.root)) {
    await readLinkTargets(archive, [node])
    const content =
      node.type === 'directory'
        ? 'directory'
        : node.type === 'symlink'
          ? `-> ${String(node.linkTarget)}`
          : (await contentOf(archive, node, dir)).toString('latin1')
    found[pathOf(node)] = [content, node.mode, node.mtimeMs]
  }
  return found
}

describe('writeArchive', () => {
  it('keeps contents, modes, times, empty directories and symlinks', async () => {
    const dir = await tempDir()
    const zip = await zipOf(dir, [
      directoryItem('empty', 0o700),
      directoryItem('src'),
      await fileItem(dir, 'src/ä\\b:c\n.txt', 'text '.repeat(1000)),
      { ...(await fileItem(dir, 'src/run', '#!/bin/sh')), mode: 0o755, mtimeMs: 1.5 },
      { path: 'src/link', type: 'symlink', linkTarget: '../empty', mode: 0o777, mtimeMs: -2000 },
      await fileItem(dir, 'nothing', ''),
    ])
    expect(await inventory(zip, dir)).toEqual({
      empty: ['directory', 0o700, MTIME_MS],
      src: ['directory', 0o755, MTIME_MS],
      'src/ä\\b:c\n.txt': ['text '.repeat(1000), 0o644, MTIME_MS],
      'src/run': ['#!/bin/sh', 0o755, 1.5],
      'src/link': ['-> ../empty', 0o777, -2000],
      nothing: ['', 0o644, MTIME_MS],
    })
  })

  const FULL = { mode: 0o6751, uid: 1001, gid: 2_000_000_000 } as const
  const TIMES = { mtimeMs: -86_400_000.001, atimeMs: 1_000_123.456, ctimeMs: MTIME_MS + 0.007 }

  it('keeps owners, all mode bits and all times, also of what is copied', async () => {
    const dir = await tempDir()
    const kept = { ...FULL, ...TIMES }
    const half = { mode: 0o1777, gid: 7, mtimeMs: MTIME_MS }
    const first = await openBytes(
      await zipOf(dir, [
        { ...directoryItem('d'), ...kept },
        { ...(await fileItem(dir, 'd/file', 'content')), ...kept },
        { ...directoryItem('half'), ...half },
      ]),
    )
    expect(nodeAt(first.root, 'd')).toMatchObject(kept)
    expect(nodeAt(first.root, 'd/file')).toMatchObject(kept)
    expect(nodeAt(first.root, 'half')).toMatchObject(half)
    expect(nodeAt(first.root, 'half')?.uid).toBeUndefined()
    const content = { from: 'archive', archive: first, node: leafAt(first, 'd/file') } as const
    const copy = await zipOf(dir, [{ path: 'copy', type: 'file', ...kept, content }], 'copy.zip')
    expect(nodeAt((await openBytes(copy)).root, 'copy')).toMatchObject(kept)
  })

  it('takes neither owners nor set-user-ID from a zip that is not of this program', async () => {
    const dir = await tempDir()
    const item = { ...(await fileItem(dir, 'file', 'content')), ...FULL, ...TIMES }
    const zip = await zipOf(dir, [item])
    const foreign = zip.subarray(0, zip.length - OWN_COMMENT.length)
    foreign.writeUInt16LE(0, foreign.length - 2)
    const { uid, gid, mode, mtimeMs, ctimeMs } = leafAt(await openBytes(foreign), 'file')
    expect({ uid, gid, mode, mtimeMs, ctimeMs }).toEqual({
      ...{ uid: undefined, gid: undefined, ctimeMs: undefined },
      mode: 0o751,
      mtimeMs: TIMES.mtimeMs,
    })
  })

  it.runIf(process.getuid?.() === 0)('is unpacked with its owners by unzip -X', async () => {
    const dir = await tempDir()
    const item = { ...(await fileItem(dir, 'file', 'content')), uid: 1001, gid: 1002 }
    await writeArchive([item], join(dir, 'out.zip'))
    await run('unzip', ['-X', join(dir, 'out.zip'), '-d', join(dir, 'out')])
    expect(await stat(join(dir, 'out', 'file'))).toMatchObject({ uid: 1001, gid: 1002 })
  })

  it('tells the true length, SHA-256 and number of entries', async () => {
    const dir = await tempDir()
    const plan = [await fileItem(dir, 'a', 'a'), await fileItem(dir, 'b.jpg', noiseOf(3_000_000))]
    const written = await writeArchive(plan, join(dir, 'out.zip'))
    const bytes = await readFile(join(dir, 'out.zip'))
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    expect(written).toEqual({ length: bytes.length, sha256, members: 2 })
  })

  it('stores media and what deflating does not shorten, and deflates the rest', async () => {
    const dir = await tempDir()
    const text = 'text '.repeat(1000)
    const zip = await zipOf(dir, [
      await fileItem(dir, 'small.JPG', text),
      await fileItem(dir, 'small.txt', text),
      await fileItem(dir, 'noise', noiseOf(5000)),
      await fileItem(dir, 'large.mp4', text.repeat(400)),
      await fileItem(dir, 'large.txt', text.repeat(400)),
    ])
    const archive = await openBytes(zip)
    const methods = [...archive.root.children.values()].map(
      (node) => node.type === 'file' && [node.name, node.member.method],
    )
    expect(methods).toEqual([
      ['small.JPG', 0],
      ['small.txt', 8],
      ['noise', 0],
      ['large.mp4', 0],
      ['large.txt', 8],
    ])
  })

  it('gives the same bytes for the same input', async () => {
    const dir = await tempDir()
    const plan = [
      await fileItem(dir, 'a', 'a'.repeat(9999)),
      await fileItem(dir, 'b', noiseOf(2_000_000)),
    ]
    const first = await zipOf(dir, plan, '1.zip')
    expect(first.equals(await zipOf(dir, plan, '2.zip'))).toBe(true)
  })

  it('keeps large contents of both methods', async () => {
    const dir = await tempDir()
    const content = Buffer.concat([noiseOf(2_500_000), Buffer.alloc(1_000_000)])
    const zip = await zipOf(dir, [
      await fileItem(dir, 'deflated', content),
      await fileItem(dir, 'stored.mp4', content),
    ])
    const archive = await openBytes(zip)
    for (const path of ['deflated', 'stored.mp4']) {
      expect((await contentOf(archive, leafAt(archive, path), dir)).equals(content)).toBe(true)
    }
  })

  it('copies entries of another archive byte for byte, under a new name, mode and time', async () => {
    const dir = await tempDir()
    const large = 'some text '.repeat(400_000)
    const old = await archiverZip((archive) => {
      archive.append('small '.repeat(500), { name: 'small.txt', mode: 0o600 })
      archive.append(Buffer.concat([noiseOf(1_500_000), Buffer.from(large)]), { name: 'large' })
      archive.append('stored', { name: 's', store: true })
      archive.symlink('link', 'small.txt')
    }, dir)
    const archive = await openBytes(old)
    const plan = ['small.txt', 'large', 's', 'link'].map((path): PlanItem => {
      const node = leafAt(archive, path)
      const content = { from: 'archive', archive, node } as const
      return { path: `new/${path}`, type: 'file', mode: 0o640, mtimeMs: MTIME_MS, content }
    })
    const copy = await openBytes(await zipOf(dir, plan))
    await readLinkTargets(copy, walkTree(copy.root))
    for (const path of ['small.txt', 'large', 's']) {
      const before = leafAt(archive, path)
      const after = leafAt(copy, `new/${path}`)
      expect(after.member.compressedSize).toBe(before.member.compressedSize)
      const content = await contentOf(copy, after, dir)
      expect(content.equals(await contentOf(archive, before, dir))).toBe(true)
      expect([after.mode, after.mtimeMs]).toEqual([0o640, MTIME_MS])
    }
    expect(leafAt(copy, 'new/link')).toMatchObject({ type: 'symlink', linkTarget: 'small.txt' })
  })

  it('copies a symlink that leaves the folder as what it was, though it shows as a file', async () => {
    const dir = await tempDir()
    const archive = await openBytes(rawZip([{ name: 'out', content: '/etc', mode: 0o120777 }]))
    await readLinkTargets(archive, walkTree(archive.root))
    const node = leafAt(archive, 'out')
    const content = { from: 'archive', archive, node } as const
    const base = { path: 'out', mode: node.mode, mtimeMs: MTIME_MS }
    const copy = await openBytes(await zipOf(dir, [{ ...base, type: 'file', content }]))
    expect([node.type, leafAt(copy, 'out').zippedAs]).toEqual(['file', 'symlink'])
  })

  it('copies what it cannot read itself: unknown methods and encrypted entries', async () => {
    const dir = await tempDir()
    const aes = extraField(0x9901, Buffer.from([2, 0, 0x41, 0x45, 3, 8, 0]))
    const bytes = rawZip([
      { name: 'lzma', method: 14, flags: 0x2, content: 'lzma data' },
      { name: 'aes', method: 99, flags: 0x9, content: 'aes data', extra: aes, dosTime: 0x12345678 },
    ])
    const archive = await openBytes(bytes)
    const plan = ['lzma', 'aes'].map((path): PlanItem => {
      const content = { from: 'archive', archive, node: leafAt(archive, path) } as const
      return { path, type: 'file', mode: 0o644, mtimeMs: MTIME_MS, content }
    })
    const zip = await zipOf(dir, plan)
    const copy = await openBytes(zip)
    expect(leafAt(copy, 'lzma').member).toMatchObject({ method: 14, flags: 0x802 })
    expect(leafAt(copy, 'aes').member).toMatchObject({
      method: 99,
      flags: 0x809,
      dosTime: 0x12345678,
    })
    expect(zip.includes('aes data')).toBe(true)
    expect(zip.toString('latin1').split(aes.toString('latin1'))).toHaveLength(3)
  })

  it('writes zip64 for more than 65,535 entries', async () => {
    const dir = await tempDir()
    const count = 70_000
    const plan = Array.from({ length: count }, (_, index) => directoryItem(`d${index}`))
    const zip = await zipOf(dir, plan)
    expect((await openBytes(zip)).root.children.size).toBe(count)
    const shifted = await openBytes(Buffer.concat([Buffer.from('#!/bin/sh\n'), zip]))
    expect(shifted.root.children.size).toBe(count)
  })

  it('does not take a lone directory of the folder’s name for a wrapper in its own zips', async () => {
    const dir = await tempDir()
    const zip = await zipOf(dir, [directoryItem('x'), await fileItem(dir, 'x/a', 'a')])
    expect(pathsOf(await openBytes(zip, { folderName: 'x' }))).toEqual(['x/', 'x/a'])
  })

  it.each(['../up', '/abs', 'a//b', 'a/./b', '', 'nul\0', '\ud800'])(
    'refuses the path %j and leaves nothing behind',
    async (path) => {
      const dir = await tempDir()
      const target = join(dir, 'out.zip')
      const plan = [await fileItem(dir, 'fine', 'fine'), directoryItem(path)]
      await expect(writeArchive(plan, target)).rejects.toMatchObject({ code: 'bad-name' })
      await expect(access(target)).rejects.toThrow('ENOENT')
    },
  )

  it('refuses a path that comes twice', async () => {
    const dir = await tempDir()
    const item = await fileItem(dir, 'a', 'a')
    const promise = writeArchive([item, item], join(dir, 'out.zip'))
    await expect(promise).rejects.toMatchObject({ code: 'invalid' })
  })

  it.each([
    ['shorter', 4],
    ['longer', 6],
  ])('notices a file that is %s than planned', async (_how, length) => {
    const dir = await tempDir()
    const content = { ...(await fileOf(dir, 'f', '12345')), length }
    const item: PlanItem = { path: 'f', type: 'file', mode: 0o644, mtimeMs: 0, content }
    const promise = writeArchive([item], join(dir, 'out.zip'))
    await expect(promise).rejects.toMatchObject({ code: 'busy' })
  })

  it('reads no more of a growing file than planned', async () => {
    const dir = await tempDir()
    const file = { ...(await fileOf(dir, 'f', '123456')), length: 4 }
    const pieces: Buffer[] = []
    const read = async (): Promise<void> => {
      for await (const piece of filePieces(file, undefined)) pieces.push(piece)
    }
    await expect(read()).rejects.toMatchObject({ code: 'busy' })
    expect(pieces).toEqual([])
  })

  it('notices a file that another program writes over while it is read', async () => {
    const dir = await tempDir()
    const file = await fileOf(dir, 'f', noiseOf(3_000_000))
    const read = async (mayChange: boolean): Promise<void> => {
      for await (const piece of filePieces({ ...file, mayChange }, undefined)) {
        expect(piece.length).toBeGreaterThan(0)
        await writeFile(file.path, noiseOf(3_000_000, 2), { flag: 'r+' })
      }
    }
    await expect(read(true)).rejects.toMatchObject({ code: 'busy' })
    await read(false)
  })

  it('notices a stored file that changes between its two passes', async () => {
    const dir = await tempDir()
    const item = await fileItem(dir, 'big.mp4', noiseOf(2_000_000, 1))
    const packed = await pack(item, undefined)
    if (item.type === 'file' && item.content.from === 'file') {
      await writeFile(item.content.path, noiseOf(2_000_000, 2))
    }
    const data = packed.writeData(() => Promise.resolve())
    await expect(data).rejects.toMatchObject({ code: 'busy' })
  })

  it('stops at its limit when entries of a hostile zip share the same bytes', async () => {
    const dir = await tempDir()
    const bytes = rawZip([
      { name: 'a', content: noiseOf(100_000) },
      { name: 'b', content: '', offset: 0, size: 100_000, compressedSize: 100_000 },
    ])
    const archive = await openBytes(bytes)
    const plan = Array.from({ length: 50 }, (_, index): PlanItem => {
      const content = { from: 'archive', archive, node: leafAt(archive, 'b') } as const
      return { path: `${index}`, type: 'file', mode: 0o644, mtimeMs: 0, content }
    })
    const promise = writeArchive(plan, join(dir, 'out.zip'), { maxBytes: 1_000_000 })
    await expect(promise).rejects.toMatchObject({ code: 'too-large' })
  })

  it('stops when it is aborted, and never overwrites a file', async () => {
    const dir = await tempDir()
    const plan = [await fileItem(dir, 'a', 'a')]
    const aborted = writeArchive(plan, join(dir, 'x'), { signal: AbortSignal.abort() })
    await expect(aborted).rejects.toMatchObject({ code: 'interrupted' })
    await writeFile(join(dir, 'there'), 'precious')
    const clash = writeArchive(plan, join(dir, 'there'))
    await expect(clash).rejects.toMatchObject({ code: 'local-io' })
    expect(await readFile(join(dir, 'there'), 'utf8')).toBe('precious')
  })

  it('gives back any tree, also through unzipper and Info-ZIP', async () => {
    const root = await tempDir()
    const name = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
      .filter((text) => !/[/\0]/.test(text) && text !== '.' && text !== '..')
      .filter((text) => Buffer.from(text).toString() === text)
      // A bridge takes it for bytes that are not UTF-8, so it is shown coded.
      .filter((text) => !text.includes('\uFFFD'))
      // What is expected is kept in a plain object, which cannot have a key of this name.
      .filter((text) => text !== '__proto__')
    const tree = fc.uniqueArray(
      fc.record({
        names: fc.array(name, { minLength: 1, maxLength: 4 }),
        content: fc.uint8Array({ maxLength: 300 }),
        mode: fc.integer({ min: 1, max: 0o777 }),
        mtimeMs: fc.integer({ min: 0, max: 4e12 }),
      }),
      { selector: (file) => file.names.join('/'), maxLength: 12 },
    )
    let round = 0
    await fc.assert(
      fc.asyncProperty(tree, async (files) => {
        const dir = join(root, `${(round += 1)}`)
        await mkdir(dir)
        const parents = new Set(
          files.flatMap(({ names }) =>
            names.slice(1).map((_, i) => names.slice(0, i + 1).join('/')),
          ),
        )
        const wanted: Record<string, unknown> = {}
        const plan: PlanItem[] = []
        for (const parent of parents) {
          plan.push(directoryItem(parent))
          wanted[parent] = ['directory', 0o755, MTIME_MS]
        }
        for (const { names, content, mode, mtimeMs } of files) {
          const path = names.join('/')
          if (parents.has(path)) continue
          plan.push({ ...(await fileItem(dir, path, Buffer.from(content))), mode, mtimeMs })
          wanted[path] = [Buffer.from(content).toString('latin1'), mode, mtimeMs]
        }
        const zip = await zipOf(dir, plan)
        expect(await inventory(zip, dir)).toEqual(wanted)
        const theirs = await unzipper.Open.buffer(zip)
        expect(theirs.files.map((file) => file.path.replace(/\/$/, '')).sort()).toEqual(
          Object.keys(wanted).sort(),
        )
        for (const file of theirs.files) {
          if (file.type !== 'File') continue
          expect((await file.buffer()).toString('latin1')).toBe((wanted[file.path] as unknown[])[0])
        }
        // Info-ZIP calls a zip with nothing in it a failure.
        if (plan.length > 0) await run('unzip', ['-tqq', join(dir, 'out.zip')], IN_UTF8)
      }),
      { numRuns: 60 },
    )
  })

  it('passes the tests of unzip and python', async () => {
    const dir = await tempDir()
    const zip = join(dir, 'out.zip')
    await writeArchive(
      [
        directoryItem('empty'),
        await fileItem(dir, 'ä/text.txt', 'text '.repeat(1000)),
        await fileItem(dir, 'large.bin', 'text '.repeat(500_000)),
        await fileItem(dir, 'large.mp4', noiseOf(2_000_000)),
        { path: 'ä/link', type: 'symlink', linkTarget: '../empty', mode: 0o777, mtimeMs: MTIME_MS },
      ],
      zip,
    )
    const python = ['-c', 'import sys,zipfile; print(zipfile.ZipFile(sys.argv[1]).testzip())', zip]
    expect((await run('unzip', ['-t', zip], IN_UTF8)).stdout).toMatch(/No errors detected/)
    expect((await run('python3', python)).stdout).toMatch(/^None/)
  })

  it('is read from a file as from memory', async () => {
    const dir = await tempDir()
    await zipOf(dir, [await fileItem(dir, 'a', 'content')])
    const source = await fileSource(join(dir, 'out.zip'))
    try {
      const archive = await openArchive(source, { limits: LIMITS })
      expect((await contentOf(archive, leafAt(archive, 'a'), dir)).toString()).toBe('content')
    } finally {
      await source.close()
    }
  })
})
