import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { unpackFolder } from '../../../src/cli/unpack-folder.ts'
import { rawZip, tempDir } from '../zip/support.ts'
import type { RawEntry } from '../zip/support.ts'

describe('a folder that is unpacked', () => {
  let dir: string
  let tree: string
  let skipped: string[]
  let freeBytes: number
  beforeEach(async () => {
    dir = await tempDir()
    tree = join(dir, 'tree')
    skipped = []
    freeBytes = 1e12
  })

  const unpack = async (...entries: readonly RawEntry[]): Promise<void> => {
    const zip = join(dir, 'zip')
    writeFileSync(zip, rawZip(entries))
    mkdirSync(tree)
    await unpackFolder(zip, tree, {
      folderName: 'x',
      signal: AbortSignal.timeout(20_000),
      freeBytes: () => Promise.resolve(freeBytes),
      onSkipped: (path, { code }) => skipped.push(`${path}: ${code}`),
    })
  }
  const modeOf = (name: string): string => (statSync(join(tree, name)).mode & 0o7777).toString(8)

  it('lacks the entries that cannot be read, and no other', async () => {
    await unpack(
      { name: 'first', content: 'first' },
      { name: 'crc', content: 'stored', crc: 1 },
      { name: 'd/deflated', content: 'x'.repeat(300_000), deflate: true, crc: 1 },
      { name: 'secret', content: 'x', flags: 1 },
      { name: 'odd', content: 'x', method: 97 },
      { name: 'liar', content: 'x'.repeat(1000), deflate: true, size: 5 },
      { name: 'last', content: 'last' },
    )
    expect(skipped).toEqual([
      'crc: corrupt',
      'd/deflated: corrupt',
      'secret: forbidden',
      'odd: unsupported',
      'liar: too-large',
    ])
    expect(readdirSync(tree)).toEqual(['d', 'first', 'last'])
    expect(readdirSync(join(tree, 'd'))).toEqual([])
    expect(readFileSync(join(tree, 'last'), 'utf8')).toBe('last')
  })

  it('is refused when its entries share bytes, before anything is written', async () => {
    const content = 'x'.repeat(300_000)
    const shared = unpack(
      { name: 'a', content, deflate: true },
      { name: 'b', content, deflate: true, offset: 0 },
    )
    await expect(shared).rejects.toMatchObject({ code: 'corrupt' })
    expect(readdirSync(tree)).toEqual([])
  })

  it('is refused when an entry reaches into the next', async () => {
    const content = 'x'.repeat(100)
    const shared = unpack(
      { name: 'a', content, compressedSize: 120, size: 120 },
      { name: 'b', content },
    )
    await expect(shared).rejects.toMatchObject({ code: 'corrupt' })
  })

  it('has the modes that the umask leaves, and a link that became a file has that of a file', async () => {
    const before = process.umask(0o027)
    try {
      await unpack(
        { name: 'open', content: 'x', mode: 0o100777 },
        { name: 'public/', mode: 0o040777 },
        { name: 'closed', content: 'x', mode: 0o100400 },
        { name: 'out', content: '../../out', mode: 0o120777 },
      )
    } finally {
      process.umask(before)
    }
    expect(['open', 'public', 'closed', 'out'].map(modeOf)).toEqual(['750', '750', '400', '640'])
    expect(lstatSync(join(tree, 'out')).isFile()).toBe(true)
  })

  it('leaves some of the disk free when it unpacks to more than the zip', async () => {
    freeBytes = 100_000_000
    await unpack({ name: 'stored', content: 'x'.repeat(300_000) })
    expect(readdirSync(tree)).toEqual(['stored'])
    rmSync(tree, { recursive: true })
    const bomb = unpack(
      { name: 'stored', content: 'x'.repeat(300_000) },
      { name: 'bomb', content: 'x'.repeat(300_000), deflate: true },
    )
    await expect(bomb).rejects.toMatchObject({ code: 'local-disk-full' })
  })
})
