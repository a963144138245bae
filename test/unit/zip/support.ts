import { createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'
import { ZipArchive } from 'archiver'
import { onTestFinished } from 'vitest'
import { openArchive } from '../../../src/zip/archive.ts'
import type { Archive, ArchiveLimits, OpenArchiveOptions } from '../../../src/zip/archive.ts'
import { openMember } from '../../../src/zip/content.ts'
import type { RandomAccessSource } from '../../../src/zip/source.ts'
import { nodeAt, pathOf, walkTree } from '../../../src/zip/tree.ts'
import type { ArchiveNode, LeafNode } from '../../../src/zip/tree.ts'

export const LIMITS: ArchiveLimits = { maxTreeBytes: 200_000_000 }

/** Bytes in memory as a source, with a record of what was read. */
export function bytesSource(bytes: Uint8Array): RandomAccessSource & { readonly reads: number[] } {
  const reads: number[] = []
  return {
    length: bytes.length,
    reads,
    read: (buffer, position) => {
      reads.push(buffer.length)
      const piece = bytes.subarray(position, position + buffer.length)
      buffer.set(piece)
      return Promise.resolve(piece.length)
    },
  }
}

/** As `bytesSource`, with only these bytes at hand; `waits` counts the reads that had to wait. */
export function nearSource(
  bytes: Uint8Array,
  near: { readonly from: number; readonly to: number },
): RandomAccessSource & { waits: number } {
  const copy = (buffer: Uint8Array, position: number): number => {
    const piece = bytes.subarray(position, position + buffer.length)
    buffer.set(piece)
    return piece.length
  }
  return {
    length: bytes.length,
    waits: 0,
    read(buffer, position) {
      this.waits += 1
      return Promise.resolve(copy(buffer, position))
    },
    readNow: (buffer, position) =>
      position >= near.from && position + buffer.length <= near.to
        ? copy(buffer, position)
        : undefined,
  }
}

/** A source whose reads end, or fail, from some byte on. */
export function brokenSource(
  bytes: Uint8Array,
  broken: { from: number; error?: Error },
): RandomAccessSource & { isBroken: boolean } {
  return {
    length: bytes.length,
    isBroken: false,
    read(buffer, position) {
      const end = this.isBroken ? broken.from : bytes.length
      const piece = bytes.subarray(position, Math.min(end, position + buffer.length))
      buffer.set(piece)
      const isShort = this.isBroken && piece.length < buffer.length
      if (isShort && broken.error !== undefined) return Promise.reject(broken.error)
      return Promise.resolve(piece.length)
    },
  }
}

export function openBytes(
  bytes: Uint8Array,
  options: Partial<OpenArchiveOptions> = {},
): Promise<Archive> {
  return openArchive(bytesSource(bytes), { limits: LIMITS, ...options })
}

/** A directory that is removed when the test ends. */
export async function tempDir(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'bagfs-folder-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

/** The paths of a tree; directories end in a slash. */
export function pathsOf(archive: Archive): string[] {
  return [...walkTree(archive.root)].map((node) =>
    node.type === 'directory' ? `${pathOf(node)}/` : pathOf(node),
  )
}

export function leafAt(archive: Archive, path: string): LeafNode {
  const node: ArchiveNode | undefined = nodeAt(archive.root, path)
  if (node === undefined || node.type === 'directory') throw new Error(`No file at ${path}.`)
  return node
}

/** The content of an entry as a reader of the drive gets it. */
export async function contentOf(archive: Archive, node: LeafNode, dir: string): Promise<Buffer> {
  const content = await openMember(archive, node)
  if (content.kind === 'uncompressed') {
    const buffer = Buffer.alloc(content.length)
    await content.readAt(buffer, 0)
    return buffer
  }
  const path = join(dir, 'inflated')
  await content.inflateTo(path)
  return readFile(path)
}

/** An entry of a hand-made zip; every number can be made wrong. */
export interface RawEntry {
  readonly name: string | Uint8Array
  readonly content?: string | Uint8Array
  readonly deflate?: boolean
  readonly method?: number
  readonly flags?: number
  /** Upper byte of "version made by"; 3 is Unix. */
  readonly host?: number
  readonly mode?: number
  readonly attributes?: number
  readonly dosTime?: number
  readonly crc?: number
  readonly size?: number
  readonly compressedSize?: number
  readonly offset?: number
  readonly extra?: Uint8Array
  readonly localExtra?: Uint8Array
}

export interface RawZip {
  readonly prefix?: Uint8Array
  readonly comment?: Uint8Array
  readonly count?: number
  readonly disk?: number
  readonly directorySize?: number
  readonly directoryOffset?: number
  readonly afterDirectory?: Uint8Array
}

/** The bytes of an entry before the directory, and its record in it. */
function rawEntry(entry: RawEntry, offset: number): { local: Buffer; record: Buffer } {
  const content = Buffer.from((entry.content ?? '') as string)
  const data = entry.deflate === true ? deflateRawSync(content) : content
  const told = {
    flags: 0,
    method: entry.deflate === true ? 8 : 0,
    dosTime: 0x5a21_0000,
    crc: crc32(content),
    compressedSize: data.length,
    size: content.length,
    host: 3,
    attributes: ((entry.mode ?? 0o100644) << 16) >>> 0,
    offset,
    extra: new Uint8Array(),
    localExtra: new Uint8Array(),
    ...entry,
  }
  const name = Buffer.from(entry.name as string)
  const fixed = Buffer.alloc(26)
  fixed.writeUInt16LE(20, 0)
  fixed.writeUInt16LE(told.flags, 2)
  fixed.writeUInt16LE(told.method, 4)
  fixed.writeUInt32LE(told.dosTime, 6)
  fixed.writeUInt32LE(told.crc, 10)
  fixed.writeUInt32LE(told.compressedSize, 14)
  fixed.writeUInt32LE(told.size, 18)
  fixed.writeUInt16LE(name.length, 22)
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), fixed, name, told.localExtra, data])
  local.writeUInt16LE(told.localExtra.length, 28)
  fixed.writeUInt16LE(told.extra.length, 24)
  const made = Buffer.from([63, told.host])
  const rest = Buffer.alloc(14)
  rest.writeUInt32LE(told.attributes, 6)
  rest.writeUInt32LE(told.offset, 10)
  const signature = Buffer.from('PK\x01\x02')
  return { local, record: Buffer.concat([signature, made, fixed, rest, name, told.extra]) }
}

/** Makes a zip byte by byte, independent of the writer under test. */
export function rawZip(entries: readonly RawEntry[], zip: RawZip = {}): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const entry of entries) {
    const { local, record } = rawEntry(entry, offset)
    parts.push(local)
    directory.push(record)
    offset += local.length
  }
  const central = Buffer.concat(directory)
  const none = new Uint8Array()
  const told = {
    disk: 0,
    count: entries.length,
    directorySize: central.length,
    directoryOffset: offset,
    comment: none,
    prefix: none,
    afterDirectory: none,
    ...zip,
  }
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(told.disk, 4)
  end.writeUInt16LE(told.count & 0xffff, 8)
  end.writeUInt16LE(told.count & 0xffff, 10)
  end.writeUInt32LE(told.directorySize, 12)
  end.writeUInt32LE(told.directoryOffset, 16)
  end.writeUInt16LE(told.comment.length, 20)
  return Buffer.concat([told.prefix, ...parts, central, told.afterDirectory, end, told.comment])
}

/** One extra field. */
export function extraField(tag: number, body: Uint8Array): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16LE(tag, 0)
  head.writeUInt16LE(body.length, 2)
  return Buffer.concat([head, body])
}

/** A zip by archiver, as other uploaders make them. */
export async function archiverZip(
  fill: (archive: ZipArchive) => void,
  dir: string,
): Promise<Buffer> {
  const path = join(dir, 'archiver.zip')
  const archive = new ZipArchive()
  const output = createWriteStream(path)
  const closed = new Promise<void>((resolve, reject) => {
    output.on('close', resolve).on('error', reject)
  })
  archive.pipe(output)
  fill(archive)
  await archive.finalize()
  await closed
  return readFile(path)
}

/** A local file as the content of a plan's item. */
export async function fileOf(
  dir: string,
  name: string,
  content: Uint8Array | string,
): Promise<{ from: 'file'; path: string; length: number }> {
  const path = join(dir, name)
  await writeFile(path, content)
  return { from: 'file', path, length: Buffer.byteLength(content) }
}
