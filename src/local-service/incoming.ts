import { createHash, randomUUID } from 'node:crypto'
import { open, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { DriveError } from '../domain/errors.ts'
import { onDisk, PRIVATE_FILE } from './on-disk.ts'

const WHAT = 'Cannot store the upload'
const HEAD_LENGTH = 4

/** Content that has arrived whole and is on disk, but is no bag yet. */
export interface ReceivedContent {
  readonly path: string
  readonly length: number
  /** 64 hex digits. */
  readonly sha256: string
  /** The first bytes, 4 at most. */
  readonly head: Buffer
}

/** What an account can take of an upload. */
export interface ReceivableRoom {
  /** Most bytes worth receiving: a bag that is held already takes no room. */
  readonly mostBytes: number
  /** Bytes of new content that fit. */
  readonly leftBytes: number
}

/**
 * Writes `source` to a new file in `directory`. Rejects with `no-space` as soon as more than
 * `mostBytes` have come, and as `source` does; nothing is left then.
 */
export async function receiveContent(
  source: AsyncIterable<Buffer>,
  settings: { readonly directory: string; readonly room: ReceivableRoom },
): Promise<ReceivedContent> {
  const path = join(settings.directory, randomUUID())
  const handle = await onDisk(WHAT, open(path, 'wx', PRIVATE_FILE))
  try {
    const written = await writeAll(source, handle, settings.room)
    await onDisk(WHAT, handle.sync())
    await onDisk(WHAT, handle.close())
    return { path, ...written }
  } catch (error) {
    await discard(path, handle)
    throw error
  }
}

async function writeAll(
  source: AsyncIterable<Buffer>,
  handle: FileHandle,
  { mostBytes, leftBytes }: ReceivableRoom,
): Promise<Omit<ReceivedContent, 'path'>> {
  const hash = createHash('sha256')
  let head = Buffer.alloc(0)
  let length = 0
  for await (const chunk of source) {
    length += chunk.length
    if (length > mostBytes) throw noSpace(leftBytes)
    if (head.length < HEAD_LENGTH) head = Buffer.concat([head, chunk]).subarray(0, HEAD_LENGTH)
    hash.update(chunk)
    await onDisk(WHAT, handle.writeFile(chunk))
  }
  return { length, sha256: hash.digest('hex'), head: Buffer.from(head) }
}

async function discard(path: string, handle: FileHandle): Promise<void> {
  try {
    await handle.close()
  } finally {
    await rm(path, { force: true })
  }
}

/** The refusal of content that is larger than what is left. */
export function noSpace(leftBytes: number): DriveError {
  return new DriveError('no-space', `Not enough space: ${leftBytes} bytes are left.`, {
    fields: ['body', 'file'],
  })
}
