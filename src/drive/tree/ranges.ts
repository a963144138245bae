import { DriveError } from '../../domain/errors.ts'
import { syncData } from '../../disk/sync.ts'
import type { OpenFile } from './open-file.ts'
import type { DiskSpan, ShareRange } from './share-range.ts'

const PIECE_BYTES = 1 << 20
/** What is copied at once: a program that is to stop does not wait for more. */
const MAX_COPY_BYTES = 16 << 20
/** What is shared at once, which takes no time. */
const MAX_SHARED_BYTES = 1 << 30
/** Tells whether blocks can be shared. Larger than a block of any file system. */
const PROBE_BYTES = 64 << 10

/** Bytes of a file, from `offset` on. */
export interface ByteSpan {
  readonly offset: number
  readonly length: number
}

/** Makes sure that a file is so long; what was not there is zeros. */
export async function lengthen(file: OpenFile, { offset, length }: ByteSpan): Promise<void> {
  refuseReader(file)
  if (offset + length > (await file.length())) await file.truncate(offset + length)
}

/** Writes zeros over what a file has there; it gets no longer. */
export async function writeZeros(file: OpenFile, { offset, length }: ByteSpan): Promise<void> {
  refuseReader(file)
  const end = Math.min(offset + length, await file.length())
  const zeros = Buffer.alloc(Math.max(0, Math.min(PIECE_BYTES, end - offset)))
  for (let at = offset; at < end; at += zeros.length) {
    await file.write(zeros.subarray(0, end - at), at, { isAppended: false })
  }
}

interface FilePlace {
  readonly file: OpenFile
  readonly offset: number
}

/** Copies bytes from one open file to another, as many as take no long time; answers how many. */
export async function copyRange(
  from: FilePlace,
  to: FilePlace,
  length: number,
  share?: ShareRange,
): Promise<number> {
  const shared = share === undefined ? 0 : await shareBlocks(from, to, { length, share })
  if (shared > PROBE_BYTES || shared === length) return shared
  const rest = Math.min(length, MAX_COPY_BYTES) - shared
  return shared + (await copyBytes(behind(from, shared), behind(to, shared), rest))
}

function behind({ file, offset }: FilePlace, bytes: number): FilePlace {
  return { file, offset: offset + bytes }
}

/** Bytes that were shared: none, a first piece, or all that can be. */
async function shareBlocks(
  from: FilePlace,
  to: FilePlace,
  { length, share }: { readonly length: number; readonly share: ShareRange },
): Promise<number> {
  const found = await spanOf(from, length)
  if (found === undefined) return 0
  const probe = { ...found, length: Math.min(found.length, PROBE_BYTES) }
  if (!to.file.shareFrom(probe, to.offset, share)) return 0
  // Sharing waits until the source is on the disk: others have their turn meanwhile.
  const isSynced = await syncData(found.fd).then(
    () => true,
    () => false,
  )
  // Its content may have become another file.
  const rest = isSynced
    ? await spanOf(behind(from, probe.length), length - probe.length)
    : undefined
  if (rest === undefined) return probe.length
  const isAll = to.file.shareFrom(rest, to.offset + probe.length, share)
  return isAll ? probe.length + rest.length : probe.length
}

/** Of what a file reads: whole blocks, and the last one where it ends; undefined where it is in no file of the local disk. */
async function spanOf({ file, offset }: FilePlace, length: number): Promise<DiskSpan | undefined> {
  const { fd, length: end } = await file.onDisk()
  const most = Math.min(length, MAX_SHARED_BYTES)
  const count = offset + most >= end ? end - offset : most - (most % PROBE_BYTES)
  return fd === undefined || count <= 0 ? undefined : { fd, offset, length: count }
}

async function copyBytes(from: FilePlace, to: FilePlace, length: number): Promise<number> {
  const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, length))
  for (let done = 0; ;) {
    const piece = buffer.subarray(0, Math.min(buffer.length, length - done))
    const count = piece.length === 0 ? 0 : await from.file.read(piece, from.offset + done)
    if (count === 0) return done
    await to.file.write(piece.subarray(0, count), to.offset + done)
    done += count
  }
}

function refuseReader({ writable }: OpenFile): void {
  if (!writable) throw new DriveError('bad-handle', 'This file is open for reading only.')
}
