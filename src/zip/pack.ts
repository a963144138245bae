import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { crc32, createDeflateRaw, deflateRaw } from 'node:zlib'
import { keptOf } from '../domain/attributes.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import { throwIfAborted } from './abort.ts'
import { dataRange } from './archive.ts'
import type { DataRange } from './archive.ts'
import { copiedHead } from './copied-head.ts'
import { COMPRESSED_EXTENSIONS, extensionOf } from './extensions.ts'
import { changed, filePieces } from './file-pieces.ts'
import { memberMode, memberName } from './plan.ts'
import type { PlanContent, PlanItem } from './plan.ts'
import { readExactly, readPiecesAhead } from './source.ts'
import type { RandomAccessSource } from './source.ts'
import type { MemberHead, Measure } from './zip-encode.ts'
import { FLAG, METHOD } from './zip-format.ts'

type Write = (bytes: Uint8Array) => Promise<void>
type FileContent = Extract<PlanContent, { from: 'file' }>
type CopiedContent = Extract<PlanContent, { from: 'archive' }>

/** A member that is ready to be written. */
export interface ReadyMember {
  readonly head: MemberHead
  /** Writes the data and resolves with its true numbers; those of `head` unless a descriptor follows. */
  writeData(write: Write): Promise<Measure>
}

/** Up to this size data is read ahead into memory; larger data flows when its turn comes. */
const SMALL_BYTES = 1024 * 1024
const COPY_BYTES = 1024 * 1024
const VERSION = 20
/** Deflated data can be a little longer than its content, so room for 64 bits is left early. */
const ZIP64_FROM_BYTES = 0xf0000000

const deflateWhole = promisify<Buffer, Buffer>(deflateRaw)

/** Reads and compresses what is small; finds out what must be known before the data of what is not. */
export async function pack(item: PlanItem, signal: AbortSignal | undefined): Promise<ReadyMember> {
  throwIfAborted(signal)
  if (item.type === 'directory') return packBytes(item, Buffer.alloc(0), METHOD.uncompressed)
  if (item.type === 'symlink')
    return packBytes(item, Buffer.from(item.linkTarget), METHOD.uncompressed)
  const { content } = item
  if (content.from === 'archive') return packCopy(item, content, signal)
  if (content.length <= SMALL_BYTES) {
    const bytes = await readWhole(content, signal)
    return packBytes(
      item,
      bytes,
      isCompressedAlready(item.path) ? METHOD.uncompressed : METHOD.deflated,
    )
  }
  return isCompressedAlready(item.path)
    ? packUncompressed(item, content, signal)
    : packDeflated(item, content, signal)
}

function isCompressedAlready(path: string): boolean {
  return COMPRESSED_EXTENSIONS.has(extensionOf(path))
}

function headOf(item: PlanItem, facts: Pick<MemberHead, 'method' | 'measure'>): MemberHead {
  const { size } = facts.measure
  return {
    ...keptOf(item),
    name: memberName(item),
    mode: memberMode(item),
    flags: FLAG.utf8,
    versionNeeded: VERSION,
    zip64: size >= ZIP64_FROM_BYTES,
    ...facts,
  }
}

async function packBytes(item: PlanItem, bytes: Buffer, wanted: number): Promise<ReadyMember> {
  const deflated = wanted === METHOD.deflated ? await deflateWhole(bytes) : bytes
  const isShorter = deflated.length < bytes.length
  const data = isShorter ? deflated : bytes
  const measure = { crc32: crc32(bytes), compressedSize: data.length, size: bytes.length }
  const head = headOf(item, { method: isShorter ? METHOD.deflated : METHOD.uncompressed, measure })
  return packedBytes(head, data)
}

function packedBytes(head: MemberHead, data: Buffer): ReadyMember {
  return {
    head,
    writeData: async (write) => {
      await write(data)
      return head.measure
    },
  }
}

async function readWhole(file: FileContent, signal: AbortSignal | undefined): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of filePieces(file, signal)) pieces.push(piece)
  return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces)
}

/** Read twice: programs that unpack a stream need an uncompressed member's CRC before its data. */
async function packUncompressed(
  item: PlanItem,
  file: FileContent,
  signal: AbortSignal | undefined,
): Promise<ReadyMember> {
  let crc = 0
  for await (const piece of filePieces(file, signal)) crc = crc32(piece, crc)
  const measure = { crc32: crc, compressedSize: file.length, size: file.length }
  return {
    head: headOf(item, { method: METHOD.uncompressed, measure }),
    writeData: async (write) => {
      let written = 0
      for await (const piece of filePieces(file, signal)) {
        written = crc32(piece, written)
        await write(piece)
      }
      if (written !== crc) throw changed(file.path)
      return measure
    },
  }
}

/** Sizes follow in a descriptor, so that large content is read once and needs no space of its own. */
function packDeflated(
  item: PlanItem,
  file: FileContent,
  signal: AbortSignal | undefined,
): ReadyMember {
  const unknown = { crc32: 0, compressedSize: 0, size: file.length }
  const head = headOf(item, { method: METHOD.deflated, measure: unknown })
  return {
    head: { ...head, flags: head.flags | FLAG.descriptor },
    writeData: async (write) => {
      let crc = 0
      let compressedSize = 0
      const content = async function* (): AsyncGenerator<Buffer> {
        for await (const piece of filePieces(file, signal)) {
          crc = crc32(piece, crc)
          yield piece
        }
      }
      const sink = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
        for await (const chunk of chunks) {
          compressedSize += chunk.length
          await write(chunk)
        }
      }
      await pipeline(content, createDeflateRaw({ chunkSize: 256 * 1024 }), sink)
      return { crc32: crc, compressedSize, size: file.length }
    },
  }
}

/** Names the member that is in the way: only without it can the folder be stored again. */
async function packCopy(
  item: PlanItem,
  content: CopiedContent,
  signal: AbortSignal | undefined,
): Promise<ReadyMember> {
  try {
    return await packWhole(item, content, signal)
  } catch (error) {
    if (!isDriveError(error, 'corrupt')) throw error
    const words = `"${item.path}" is damaged and cannot be stored again. ${error.message}`
    throw new DriveError('corrupt', words, { cause: error })
  }
}

async function packWhole(
  item: PlanItem,
  content: CopiedContent,
  signal: AbortSignal | undefined,
): Promise<ReadyMember> {
  const { source } = content.archive
  const range = await dataRange(source, content.node.member, signal)
  const head = await copiedHead(item, content, signal)
  if (range.length <= SMALL_BYTES) {
    return packedBytes(head, await readExactly(source, range.position, range.length, signal))
  }
  return {
    head,
    writeData: async (write) => {
      await copy(source, range, write, signal)
      return head.measure
    },
  }
}

async function copy(
  source: RandomAccessSource,
  range: DataRange,
  write: Write,
  signal: AbortSignal | undefined,
): Promise<void> {
  for await (const piece of readPiecesAhead(source, range, { pieceBytes: COPY_BYTES, signal })) {
    throwIfAborted(signal)
    await write(piece)
  }
}
