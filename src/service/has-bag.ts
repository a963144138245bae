import type { Readable } from 'node:stream'
import { isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Download, DownloadOptions, StorageService } from './storage-service.ts'

type Downloads = Pick<StorageService, 'download'>
type BagOptions = Pick<DownloadOptions, 'signal' | 'isLength'>

/** What one request for the first byte of a bag tells. */
export interface BagThere {
  readonly isThere: boolean
  /** Bytes of its content, where the answer says so. */
  readonly length?: number
}

/** Whether the service has a bag; asks for its first byte at most. Rejects when it does not say. */
export async function askForBag(
  service: Downloads,
  bagId: BagId,
  options: BagOptions = {},
): Promise<BagThere> {
  const download = await begin(service, bagId, 1, options)
  if (download === undefined) return { isThere: false }
  const { body, totalLength } = download
  body.destroy()
  return { isThere: true, ...(totalLength === undefined ? {} : { length: totalLength }) }
}

/**
 * The first bytes of a bag, `count` at most, and its length in bytes where the answer says so. Undefined when the
 * service has no such bag; rejects when it does not say, or ends the bytes with an error.
 */
export async function askForFirstBytes(
  service: Downloads,
  bagId: BagId,
  count: number,
  options: BagOptions = {},
): Promise<{ readonly bytes: Buffer; readonly length?: number } | undefined> {
  const download = await begin(service, bagId, count, options)
  if (download === undefined) return undefined
  const { body, totalLength } = download
  const bytes = await readFirst(body, count)
  return { bytes, ...(totalLength === undefined ? {} : { length: totalLength }) }
}

async function begin(
  service: Downloads,
  bagId: BagId,
  count: number,
  options: BagOptions,
): Promise<Download | undefined> {
  try {
    return await service.download(bagId, { ...options, range: { start: 0, end: count } })
  } catch (error) {
    if (isDriveError(error, 'gone')) return undefined
    throw error
  }
}

/** A service that does not know ranges sends all: the rest is not read. */
async function readFirst(body: Readable, count: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of body as AsyncIterable<Buffer>) {
    pieces.push(piece)
    length += piece.length
    if (length >= count) break
  }
  return Buffer.concat(pieces).subarray(0, count)
}
