import { execFile } from 'node:child_process'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openArchive } from '../../../src/zip/archive.ts'
import { nodeAt } from '../../../src/zip/tree.ts'
import {
  archiverZip,
  bytesSource,
  contentOf,
  extraField,
  leafAt,
  LIMITS,
  openBytes,
  pathsOf,
  rawZip,
  tempDir,
} from './support.ts'
import type { RawEntry } from './support.ts'

const run = promisify(execFile)

const named = (...names: readonly (string | Uint8Array)[]): RawEntry[] =>
  names.map((name, index) => ({ name, content: `${index}` }))

const treeOf = async (...names: readonly (string | Uint8Array)[]): Promise<string[]> =>
  pathsOf(await openBytes(rawZip(named(...names))))

describe('the tree of a zip', () => {
  it('has the directories that paths imply, and those that are empty', async () => {
    expect(await treeOf('a/b/c.txt', 'empty/', 'd')).toEqual([
      'a/',
      'a/b/',
      'a/b/c.txt',
      'empty/',
      'd',
    ])
  })

  it('is empty for an empty zip', async () => {
    expect(await treeOf()).toEqual([])
  })

  it('takes off one top directory of the folder’s own name', async () => {
    const bytes = rawZip(named('photos/', 'photos/a', 'photos/b/c'))
    const archive = await openBytes(bytes, { folderName: 'photos' })
    expect(pathsOf(archive)).toEqual(['a', 'b/', 'b/c'])
    expect(archive.root).toMatchObject({ name: '', parent: undefined })
  })

  it.each([
    ['another name', ['other/a']],
    ['a file beside it', ['photos/a', 'b']],
    ['no directory', ['photos']],
  ])('keeps the top as it is with %s', async (_why, names) => {
    const withName = await openBytes(rawZip(named(...names)), { folderName: 'photos' })
    expect(pathsOf(withName)).toEqual(await treeOf(...names))
  })

  it('shows modes and times, of each kind of field', async () => {
    const ntfs = Buffer.alloc(32)
    ntfs.writeUInt16LE(1, 4)
    ntfs.writeUInt16LE(24, 6)
    ntfs.writeBigUInt64LE(116_444_736_000_000_000n + 12_345_678n, 8)
    const stamp = Buffer.from([1, 0, 0, 0, 0])
    stamp.writeInt32LE(-5, 1)
    const archive = await openBytes(
      rawZip([
        {
          name: 'dos',
          dosTime: (((2024 - 1980) << 25) | (2 << 21) | (3 << 16) | (4 << 11) | (5 << 5) | 3) >>> 0,
        },
        { name: 'unix', mode: 0o104751, extra: extraField(0x5455, stamp) },
        { name: 'ntfs', extra: Buffer.concat([extraField(0x5455, stamp), extraField(10, ntfs)]) },
        { name: 'readonly', host: 0, attributes: 1 },
        { name: 'dir/', mode: 0o040700 },
        { name: 'slashless', mode: 0o040500 },
        { name: 'filled', mode: 0o040500, content: 'not lost' },
      ]),
    )
    expect(nodeAt(archive.root, 'dos')?.mtimeMs).toBe(new Date(2024, 1, 3, 4, 5, 6).getTime())
    expect(nodeAt(archive.root, 'unix')).toMatchObject({ mode: 0o751, mtimeMs: -5000 })
    expect(nodeAt(archive.root, 'ntfs')).toMatchObject({ mode: 0o644, mtimeMs: 1234.5678 })
    expect(nodeAt(archive.root, 'readonly')).toMatchObject({ mode: 0o444 })
    expect(nodeAt(archive.root, 'dir')).toMatchObject({ type: 'directory', mode: 0o700 })
    expect(nodeAt(archive.root, 'filled')).toMatchObject({ type: 'file' })
    expect(nodeAt(archive.root, 'slashless')).toMatchObject({ type: 'directory', mode: 0o500 })
  })

  it('shows what archiver packs', async () => {
    const dir = await tempDir()
    const bytes = await archiverZip((archive) => {
      archive.append('one', { name: 'sub/one.txt', mode: 0o640, date: new Date(1e12) })
      archive.append('zwei', { name: 'ü.txt' })
      archive.append('', { name: 'empty/' })
    }, dir)
    const archive = await openBytes(bytes)
    expect(pathsOf(archive).sort()).toEqual(['empty/', 'sub/', 'sub/one.txt', 'ü.txt'])
    expect(leafAt(archive, 'sub/one.txt').mode).toBe(0o640)
    expect((await contentOf(archive, leafAt(archive, 'ü.txt'), dir)).toString()).toBe('zwei')
  })

  it('shows what zip and python pack', async () => {
    const dir = await tempDir()
    await mkdir(join(dir, 'in', 'leer'), { recursive: true })
    await writeFile(join(dir, 'in', 'ä.txt'), 'text '.repeat(100), { mode: 0o600 })
    await symlink('ä.txt', join(dir, 'in', 'link'))
    const script = 'import shutil,sys; shutil.make_archive(sys.argv[1],"zip",sys.argv[2])'
    const packers = [
      ['zip', ['-qry', join(dir, 'zip.zip'), '.'], join(dir, 'zip.zip')],
      ['python3', ['-c', script, join(dir, 'py'), join(dir, 'in')], join(dir, 'py.zip')],
    ] as const
    for (const [program, args, path] of packers) {
      await run(program, args, { cwd: join(dir, 'in') })
      const archive = await openBytes(await readFile(path))
      expect(pathsOf(archive).sort()).toEqual(['leer/', 'link', 'ä.txt'])
      expect(leafAt(archive, 'ä.txt').mode).toBe(0o600)
    }
  })
})

describe('the zips of other packers', () => {
  /** Names that archiver does not change, and that a shell's pattern means nothing by. */
  const name = fc
    .string({
      unit: fc.constantFrom('a', 'b', 'ä', '漢', '😀', ' ', '.', '-', '_'),
      minLength: 1,
      maxLength: 10,
    })
    .filter((text) => !/^[. -]|[. ]$/.test(text))
  const files = fc.uniqueArray(
    fc.record({
      names: fc.array(name, { minLength: 1, maxLength: 3 }),
      content: fc.uint8Array({ maxLength: 2_000 }),
    }),
    { selector: ({ names }) => names[0], minLength: 1, maxLength: 8 },
  )

  it('give back any tree', async () => {
    const root = await tempDir()
    let round = 0
    await fc.assert(
      fc.asyncProperty(files, async (tree) => {
        const dir = join(root, String((round += 1)))
        for (const { names, content } of tree) {
          await mkdir(join(dir, 'in', ...names.slice(0, -1)), { recursive: true })
          await writeFile(join(dir, 'in', ...names), content)
        }
        await run('zip', ['-qr', join(dir, 'zip.zip'), '.'], { cwd: join(dir, 'in') })
        const byArchiver = await archiverZip((archive) => {
          archive.directory(join(dir, 'in'), false)
        }, dir)
        for (const bytes of [await readFile(join(dir, 'zip.zip')), byArchiver]) {
          const archive = await openBytes(bytes)
          for (const { names, content } of tree) {
            const read = await contentOf(archive, leafAt(archive, names.join('/')), dir)
            expect(read.equals(content)).toBe(true)
          }
          expect(pathsOf(archive).filter((path) => !path.endsWith('/'))).toHaveLength(tree.length)
        }
      }),
      { numRuns: 40 },
    )
  })
})

describe('names in a zip', () => {
  it('finds the directory of each entry, whatever came before and however it is written', async () => {
    expect(
      await treeOf('a/x', 'b/x', 'a/y', 'a/./z', 'a//w', './a/v', 'a/b/x', 'a/u', 't'),
    ).toEqual([
      ...['a/', 'a/x', 'a/y', 'a/z', 'a/w', 'a/v', 'a/b/', 'a/b/x', 'a/u'],
      ...['b/', 'b/x', 't'],
    ])
  })

  it('keeps paths that climb or are absolute inside the folder', async () => {
    const paths = await treeOf('../up', 'a/../../b', '/etc/passwd', './c', 'd//e')
    for (const path of paths) expect(path.split('/')).not.toContain('..')
    expect(paths).toHaveLength(11)
    expect(paths).toEqual(expect.arrayContaining(['etc/passwd', 'c', 'd/e']))
  })

  it('shows entries whose names are empty or hold a NUL', async () => {
    const paths = await treeOf('', '/', 'nul\0', '.', 'x/..')
    for (const path of paths) expect(path).toMatch(/^[^\0]+$/)
    expect(paths).toHaveLength(5)
  })

  it('gives the last of several entries the name and the others spare ones', async () => {
    const dir = await tempDir()
    const archive = await openBytes(rawZip(named('a.txt', 'a.txt', 'a (1).txt', 'a.txt', 'A.txt')))
    expect(pathsOf(archive).sort()).toEqual([
      'A.txt',
      'a (1).txt',
      'a (2).txt',
      'a (3).txt',
      'a.txt',
    ])
    expect((await contentOf(archive, leafAt(archive, 'a.txt'), dir)).toString()).toBe('3')
    expect((await contentOf(archive, leafAt(archive, 'a (1).txt'), dir)).toString()).toBe('2')
  })

  it.each([[['x', 'x/y']], [['x/y', 'x']]])(
    'lets the directory have the name that a file has too: %j',
    async (names) => {
      expect((await treeOf(...names)).sort()).toEqual(['x (1)', 'x/', 'x/y'])
    },
  )

  it('never makes a path lead through a symlink', async () => {
    const bytes = rawZip([
      { name: 'link', content: '/etc', mode: 0o120777 },
      { name: 'link/passwd', content: 'mine' },
    ])
    expect(pathsOf(await openBytes(bytes)).sort()).toEqual(['link (1)', 'link/', 'link/passwd'])
  })

  it('reads code page 437 unless something says UTF-8', async () => {
    const utf8 = Buffer.from('é')
    const cp437 = Buffer.from([0x82])
    const unicodePath = (bytes: Buffer, name: Buffer): Buffer => {
      const head = Buffer.alloc(5)
      head[0] = 1
      head.writeUInt32LE(crc32(bytes), 1)
      return extraField(0x7075, Buffer.concat([head, name]))
    }
    const name = async (entry: RawEntry): Promise<string[]> =>
      pathsOf(await openBytes(rawZip([entry])))
    expect(await name({ name: cp437, host: 0 })).toEqual(['é'])
    expect(await name({ name: cp437, flags: 0x800 })).toEqual(['é'])
    expect(await name({ name: utf8, host: 0 })).toEqual(['├⌐'])
    expect(await name({ name: utf8, host: 0, flags: 0x800 })).toEqual(['é'])
    expect(await name({ name: utf8, host: 3 })).toEqual(['é'])
    const question = Buffer.from('?')
    const told = Buffer.from('日本')
    expect(await name({ name: question, extra: unicodePath(question, told) })).toEqual(['日本'])
    expect(await name({ name: question, extra: unicodePath(utf8, told) })).toEqual(['?'])
    const cut = unicodePath(question, told).subarray(0, -3)
    expect(await name({ name: question, extra: cut })).toEqual(['?'])
  })

  it('parts names by backslashes only where DOS programs do', async () => {
    const dos = await openBytes(rawZip([{ name: 'a\\b', host: 0, attributes: 0 }]))
    expect(pathsOf(dos)).toEqual(['a/', 'a/b'])
    expect(await treeOf('a\\b')).toEqual(['a\\b'])
  })

  it('shortens names over 255 bytes, each to one of its own', async () => {
    const paths = await treeOf(`${'x'.repeat(300)}1`, `${'x'.repeat(300)}2`, 'ü'.repeat(200))
    expect(new Set(paths).size).toBe(3)
    for (const path of paths) expect(Buffer.byteLength(path)).toBeLessThanOrEqual(255)
  })

  it('gives spare names that Linux takes to long names that come twice', async () => {
    const long = `${'ü'.repeat(125)}.text`
    const paths = await treeOf(...Array.from({ length: 12 }, () => long))
    expect(new Set(paths).size).toBe(12)
    for (const path of paths) expect(Buffer.byteLength(path)).toBeLessThanOrEqual(255)
  })

  it('takes 50,000 entries of one name', async () => {
    const paths = await treeOf(...Array.from({ length: 50_000 }, () => 'same.txt'))
    expect(new Set(paths).size).toBe(50_000)
  })

  it('takes paths that are 100 and 5,000 deep', async () => {
    expect(await treeOf(`${'d/'.repeat(100)}f`)).toHaveLength(101)
    expect(await treeOf(`${'d/'.repeat(5_000)}f`)).toHaveLength(5_001)
  })

  it('never shows a name that Linux could not', async () => {
    const bytes = fc.uint8Array({ minLength: 0, maxLength: 20 })
    const name = fc.oneof(
      bytes,
      fc.array(fc.constantFrom('..', '.', '', 'a', '/', '\0')).map((p) => Buffer.from(p.join('/'))),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(name, { maxLength: 8 }),
        fc.constantFrom(0, 3, 19),
        async (names, host) => {
          const archive = await openBytes(rawZip(names.map((each) => ({ name: each, host }))))
          const paths = pathsOf(archive)
          expect(new Set(paths).size).toBe(paths.length)
          for (const path of paths) {
            for (const part of path.replace(/\/$/, '').split('/')) {
              expect(['', '.', '..']).not.toContain(part)
              expect(part).not.toContain('\0')
            }
          }
        },
      ),
      { numRuns: 500 },
    )
  })
})

describe('damaged and odd zips', () => {
  const whole = rawZip(named('a', 'b', 'c'))

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['no zip', Buffer.from('plain text '.repeat(100))],
    ['a cut end', whole.subarray(0, -10)],
    ['a cut directory', whole.subarray(0, -60)],
    ['a missing middle', Buffer.concat([whole.subarray(0, 20), whole.subarray(-22)])],
    ['a count that is too high', rawZip(named('a'), { count: 2 })],
    ['a count that is too low', rawZip(named('a', 'b'), { count: 1 })],
    [
      'a directory that ends within a record',
      rawZip(named('a', 'b'), { directorySize: 60, directoryOffset: 0 }),
    ],
    ['an absurd directory size', rawZip(named('a'), { directorySize: 0xfffffff0 })],
    [
      'a byte too many in the directory',
      rawZip([{ name: '1' }], { afterDirectory: Buffer.alloc(1), directorySize: 48 }),
    ],
    ['something between the records', withJunkRecord()],
  ])('says that a zip with %s is corrupt', async (_what, bytes) => {
    await expect(openBytes(bytes)).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('says that a part of a split archive is unsupported', async () => {
    const promise = openBytes(rawZip(named('a'), { disk: 1 }))
    await expect(promise).rejects.toMatchObject({ code: 'unsupported' })
  })

  it('finds the entries of a self-extracting archive, with and without true offsets', async () => {
    const dir = await tempDir()
    const prefix = Buffer.from('#!/bin/sh\nexit\n'.repeat(1000))
    const shifted = await openBytes(rawZip(named('a'), { prefix }))
    expect((await contentOf(shifted, leafAt(shifted, 'a'), dir)).toString()).toBe('0')
    const plain = rawZip(named('a'))
    const directoryOffset = plain.readUInt32LE(plain.length - 6) + prefix.length
    const entries = [{ name: 'a', content: '0', offset: prefix.length }]
    const exact = await openBytes(rawZip(entries, { prefix, directoryOffset }))
    expect((await contentOf(exact, leafAt(exact, 'a'), dir)).toString()).toBe('0')
  })

  it('finds the directory before a gap that is not counted to it', async () => {
    const bytes = rawZip(named('a', 'b'), { afterDirectory: Buffer.alloc(9, 65) })
    expect(pathsOf(await openBytes(bytes))).toEqual(['a', 'b'])
  })

  it('reads past comments, also such as look like an end record', async () => {
    const comment = Buffer.concat([
      Buffer.from('PK\x05\x06'),
      Buffer.alloc(18, 1),
      Buffer.alloc(60_000, 65),
    ])
    expect(pathsOf(await openBytes(rawZip(named('a'), { comment })))).toEqual(['a'])
    const bytes = Buffer.concat([rawZip(named('a')), Buffer.from('junk after the end')])
    expect(pathsOf(await openBytes(bytes))).toEqual(['a'])
  })

  it('accepts a digital signature behind the directory', async () => {
    const signature = Buffer.concat([Buffer.from('PK\x05\x05'), Buffer.from([4, 0, 1, 2, 3, 4])])
    const size = rawZip(named('a')).length - 22 - 32 + signature.length
    const bytes = rawZip(named('a'), { afterDirectory: signature, directorySize: size })
    expect(pathsOf(await openBytes(bytes))).toEqual(['a'])
  })

  it('reads more than 65,535 entries of a writer without zip64', async () => {
    const entries = Array.from({ length: 65_540 }, (_, index) => ({ name: `f${index}` }))
    expect((await openBytes(rawZip(entries))).root.children.size).toBe(65_540)
  })

  it('reads numbers of 64 bits', async () => {
    const field = Buffer.alloc(16)
    field.writeBigUInt64LE(5n, 0)
    field.writeBigUInt64LE(5n, 8)
    const zip64 = {
      content: 'hello',
      size: 0xffffffff,
      compressedSize: 0xffffffff,
      extra: extraField(1, field),
    }
    const absurd = { ...zip64, extra: extraField(1, Buffer.alloc(16, 0xff)) }
    const archive = await openBytes(
      rawZip([
        { name: 'a', ...zip64 },
        { name: 'b', ...absurd },
      ]),
    )
    const dir = await tempDir()
    expect((await contentOf(archive, leafAt(archive, 'a'), dir)).toString()).toBe('hello')
    expect(leafAt(archive, 'b').member.size).toBe(Number.MAX_SAFE_INTEGER)
    await expect(contentOf(archive, leafAt(archive, 'b'), dir)).rejects.toMatchObject({
      code: 'corrupt',
    })
  })

  it('lists entries whose 64-bit numbers are missing', async () => {
    const entry = { name: 'a', size: 0xffffffff, extra: extraField(1, Buffer.alloc(7)) }
    const archive = await openBytes(rawZip([entry]))
    expect(leafAt(archive, 'a').member.size).toBe(0xffffffff)
  })

  it('stops at its limit of memory, also when few entries imply many directories', async () => {
    const entries = named(
      ...Array.from({ length: 20 }, (_, index) => `${index}/${'d/'.repeat(1000)}`),
    )
    const promise = openBytes(rawZip(entries), { limits: { maxTreeBytes: 2_000_000 } })
    await expect(promise).rejects.toMatchObject({ code: 'too-large' })
  })

  it('is refused where the paths of its directories are long, and the next zip has each of them', async () => {
    const deep = `${'d/'.repeat(32_000)}leaf`
    const promise = openBytes(rawZip([{ name: deep, content: 'x' }]))
    await expect(promise).rejects.toMatchObject({ code: 'too-large' })
    const usual = `${'d/'.repeat(1_000)}leaf`
    expect(await openBytes(rawZip([{ name: usual, content: 'x' }]))).toBeDefined()
  })

  it('takes no more memory than its directory is worth', async () => {
    const zip = rawZip(
      named(...Array.from({ length: 60 }, (_, index) => `${index}/${'d/'.repeat(20_000)}`)),
    )
    const before = process.memoryUsage().heapUsed
    const promise = openBytes(zip, { limits: { maxTreeBytes: Number.MAX_SAFE_INTEGER } })
    await expect(promise).rejects.toMatchObject({ code: 'too-large' })
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(250_000_000)
  })

  it('reads only the tail and the directory of a large zip', async () => {
    const source = bytesSource(
      rawZip([{ name: 'big', content: Buffer.alloc(5_000_000) }, { name: 'a' }]),
    )
    const archive = await openArchive(source, { limits: LIMITS })
    expect(pathsOf(archive)).toEqual(['big', 'a'])
    expect(source.reads.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(70_000)
  })
})

function withJunkRecord(): Buffer {
  const bytes = rawZip(named('a', 'b', 'c'))
  const second = bytes.indexOf(
    Buffer.from('PK\x01\x02'),
    bytes.indexOf(Buffer.from('PK\x01\x02')) + 1,
  )
  bytes[second] = 0
  return bytes
}
