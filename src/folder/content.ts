import { DriveError } from '../domain/errors.ts'
import { dataRange, dataRangeNow } from './archive.ts'
import type { Archive } from './archive.ts'
import { inflateToFile, wholeContent } from './inflate.ts'
import type { InflateOptions } from './inflate.ts'
import { readExactly, readExactlyNow } from './source.ts'
import { StoredEntry } from './stored-content.ts'
import type { LeafNode } from './tree.ts'
import { isEncrypted, METHOD } from './zip-format.ts'
import type { ZipEntry } from './zip-format.ts'

/** An entry that was deflated: its bytes are to be had in their order only, so they go to a file. */
export interface DeflatedContent {
  readonly kind: 'deflated'
  /** Bytes when inflated, as the directory tells; less or more is an error. */
  readonly length: number
  /**
   * Writes the content to `path` (made or emptied, 0600). Bytes that `onProgress` counts can be read
   * there at once. Rejects with `corrupt` (damaged data, wrong CRC or length), `too-large`, or what
   * the source, the disk and `makeRoom` reject with; then nothing is left at `path`.
   */
  inflateTo(path: string, options?: InflateOptions): Promise<void>
}

export type EntryContent = StoredEntry | DeflatedContent

/** No deflated data holds more than this many times its length. Less than so much is told by inflating it. */
const MAX_RATIO = 1032
const RATIO_FROM_BYTES = 100_000_000
/** Deflated data is hardly longer than its content; beyond this it is not read into memory. */
const MAX_OVERHEAD_BYTES = 64 * 1024

/**
 * Opens an entry's content; reads its local header only.
 * @throws DriveError `forbidden` (encrypted), `unsupported` (a method other than stored and deflated),
 * `too-large` (it tells more than its data can hold), `corrupt`.
 */
export async function openEntry(
  archive: Archive,
  node: LeafNode,
  signal?: AbortSignal,
): Promise<EntryContent> {
  const { entry } = node
  const { source } = archive
  checkReadable(entry, node.name)
  const range = await dataRange(source, entry, signal)
  if (entry.method === METHOD.stored) return new StoredEntry({ source, range, crc32: entry.crc32 })
  refuseImpossible(entry)
  return {
    kind: 'deflated',
    length: entry.size,
    inflateTo: (path, options = {}) => inflateToFile({ source, range, entry }, path, options),
  }
}

/**
 * Reads a small entry whole.
 * @throws DriveError as `openEntry`; `too-large` also when the entry has more than `maxBytes`.
 */
export async function readEntry(
  archive: Archive,
  node: LeafNode,
  options: { readonly maxBytes: number; readonly signal?: AbortSignal | undefined },
): Promise<Buffer> {
  const { entry } = node
  checkWhole(node, options.maxBytes)
  const range = await dataRange(archive.source, entry, options.signal)
  const data = await readExactly(archive.source, range.position, range.length, options.signal)
  return wholeContent(data, entry)
}

/** As `readEntry`, at once; undefined when something of it must be waited for. */
export function readEntryNow(
  archive: Archive,
  node: LeafNode,
  options: { readonly maxBytes: number },
): Buffer | undefined {
  const { entry } = node
  checkWhole(node, options.maxBytes)
  const range = dataRangeNow(archive.source, entry)
  if (range === undefined) return undefined
  const data = readExactlyNow(archive.source, range.position, range.length)
  return data === undefined ? undefined : wholeContent(data, entry)
}

function checkWhole({ entry, name }: LeafNode, maxBytes: number): void {
  checkReadable(entry, name)
  const isLarge = entry.size > maxBytes || entry.compressedSize > maxBytes + MAX_OVERHEAD_BYTES
  if (isLarge) throw tooLarge(entry)
}

function checkReadable(entry: ZipEntry, name: string): void {
  if (isEncrypted(entry)) {
    throw new DriveError('forbidden', `"${name}" is encrypted in the zip.`, {
      hint: 'Unpack the zip with a program that asks for the password.',
    })
  }
  if (entry.method !== METHOD.stored && entry.method !== METHOD.deflated) {
    throw new DriveError(
      'unsupported',
      `"${name}" is compressed by method ${entry.method}, which bagfs does not know.`,
    )
  }
  if (entry.method === METHOD.stored && entry.size !== entry.compressedSize) {
    throw new DriveError('corrupt', `The zip is damaged: "${name}" has two different sizes.`)
  }
}

function refuseImpossible(entry: ZipEntry): void {
  const { size, compressedSize } = entry
  if (size > RATIO_FROM_BYTES && size > compressedSize * MAX_RATIO) throw tooLarge(entry)
}

function tooLarge(entry: ZipEntry): DriveError {
  return new DriveError(
    'too-large',
    `An entry of ${entry.compressedSize} bytes that inflates to ${entry.size} is over the limits.`,
  )
}
