import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { openMember } from '../../../src/zip/content.ts'
import { readLinkTargets } from '../../../src/zip/links.ts'
import { pathOf, walkTree } from '../../../src/zip/tree.ts'
import type { LeafNode } from '../../../src/zip/tree.ts'
import type { Archive } from '../../../src/zip/archive.ts'
import { writeArchive } from '../../../src/zip/write.ts'
import { SEED, seededRandom } from '../../support/seed.ts'
import { archiverZip, extraField, openBytes, rawZip, tempDir } from './support.ts'
import { readFile } from 'node:fs/promises'

const CASES = 10_000
const LIMITS = { maxTreeBytes: 2_000_000 }
/** Numbers at which sizes and offsets turn around. */
const EDGES = [0, 1, 0x7f, 0x80, 0xff, 0xfffe, 0xffff, 0x7fffffff, 0xfffffffe, 0xffffffff]

/** Zips that hold all that the reader knows: both methods, zip64, links, odd names, a prefix. */
async function corpus(dir: string): Promise<Buffer[]> {
  const big = Buffer.alloc(8, 0)
  big.writeUInt32LE(40)
  const mixed = rawZip(
    [
      { name: 'dir/', mode: 0o040755 },
      { name: 'dir/stored.txt', content: 'stored content' },
      { name: 'dir/deflated.txt', content: 'deflated '.repeat(200), deflate: true },
      { name: 'large', content: Buffer.from('0123456789'.repeat(20_000)), deflate: true },
      { name: 'link', content: 'dir/stored.txt', mode: 0o120777 },
      { name: '../up', content: 'x' },
      { name: Buffer.from([0x82, 0x2f, 0xff]), host: 0, content: 'cp437' },
      { name: 'z64', content: 'a'.repeat(40), size: 0xffffffff, extra: extraField(1, big) },
      { name: 'dir', content: 'same name' },
    ],
    { prefix: Buffer.from('#!/bin/sh\n'), comment: Buffer.from('a comment') },
  )
  const packed = await archiverZip((archive) => {
    archive.append('text '.repeat(100), { name: 'a/b/c.txt' })
    archive.append('', { name: 'empty' })
    archive.symlink('s', 'a')
  }, dir)
  const count = 300
  const many = rawZip(Array.from({ length: count }, (_, i) => ({ name: `${i % 7}/${i}` })))
  const own = join(dir, 'own.zip')
  await writeArchive([{ path: 'd', type: 'directory', mode: 0o700, mtimeMs: 1.5 }], own)
  return [mixed, packed, many, await readFile(own)]
}

/** Changes a few bytes, mostly where the headers are; also cuts, repeats and joins. */
function mutate(original: Buffer, random: (below: number) => number): Buffer {
  let bytes = Buffer.from(original)
  for (let changes = 1 + random(6); changes > 0; changes -= 1) {
    if (bytes.length < 8) break
    const tail = Math.min(bytes.length, 700)
    const at = random(3) === 0 ? random(bytes.length - 4) : bytes.length - tail + random(tail - 4)
    const edge = EDGES[random(EDGES.length)] ?? 0
    const kind = random(10)
    if (kind < 4) bytes[at] = random(256)
    else if (kind < 6) bytes.writeUInt16LE(edge & 0xffff, at)
    else if (kind < 8) bytes.writeUInt32LE(edge, at)
    else if (kind === 8) bytes = bytes.subarray(0, at)
    else bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(random(bytes.length))])
  }
  return bytes
}

/** Runs `work`; anything but a DriveError is the test's failure. */
async function driveErrorOr<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof DriveError) return undefined
    throw error
  }
}

function checkTree(archive: Archive): void {
  const paths = new Set<string>()
  for (const node of walkTree(archive.root)) {
    expect(/^(\.{0,2})$|[/\0]/.test(node.name)).toBe(false)
    expect(Buffer.byteLength(node.name)).toBeLessThanOrEqual(255)
    expect(node.parent?.children.get(node.name)).toBe(node)
    if (node.type === 'symlink') expect(node.linkTarget).not.toMatch(/^\//)
    paths.add(pathOf(node))
  }
}

async function readAll(archive: Archive, node: LeafNode, path: string): Promise<void> {
  const content = await openMember(archive, node)
  if (content.kind === 'uncompressed') await content.readAt(Buffer.alloc(content.length), 0)
  else await content.inflateTo(path)
}

describe('mutated zips', () => {
  it('give a tree or a DriveError, and so does each entry and packing it again', async () => {
    const dir = await tempDir()
    console.info(`Mutated zips: BAGFS_SEED=${SEED}`)
    const next = seededRandom(SEED)
    const random = (below: number): number => Math.floor(next() * below)
    const originals = await corpus(dir)
    let trees = 0
    let contents = 0
    for (let round = 0; round < CASES; round += 1) {
      const bytes = mutate(originals[round % originals.length] ?? Buffer.alloc(0), random)
      const archive = await driveErrorOr(() => openBytes(bytes, { limits: LIMITS }))
      if (archive === undefined) continue
      trees += 1
      await readLinkTargets(archive, walkTree(archive.root))
      checkTree(archive)
      let left = 12
      for (const node of walkTree(archive.root)) {
        if (node.type === 'directory' || (left -= 1) < 0) continue
        const path = join(dir, 'entry')
        const isRead = await driveErrorOr(() => readAll(archive, node, path).then(() => true))
        if (isRead === true) contents += 1
        if (round % 20 !== 0) continue
        const { mode, mtimeMs } = node
        const content = { from: 'archive', archive, node } as const
        const plan = [{ path: pathOf(node), type: 'file', mode, mtimeMs, content } as const]
        const target = join(dir, `${round}-${left}.zip`)
        await driveErrorOr(() => writeArchive(plan, target, { maxBytes: 10_000_000 }))
      }
    }
    // Mutations that break everything, or nothing, would prove nothing.
    expect(trees).toBeGreaterThan(CASES / 20)
    expect(trees).toBeLessThan(CASES)
    expect(contents).toBeGreaterThan(CASES / 20)
  }, 180_000)
})
