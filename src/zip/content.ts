import { DriveError } from '../domain/errors.ts'
import { dataRange, dataRangeNow } from './archive.ts'
import type { Archive } from './archive.ts'
import { inflateToFile, wholeContent } from './inflate.ts'
import type { InflateOptions } from './inflate.ts'
import { readExactly, readExactlyNow } from './source.ts'
import { UncompressedContent } from './uncompressed-content.ts'
import type { LeafNode } from './tree.ts'
import { isEncrypted, METHOD } from './zip-format.ts'
import type { ZipMember } from './zip-format.ts'

/** A member that was deflated: its bytes are to be had in their order only, so they go to a file. */
export interface DeflatedContent {
  readonly kind: 'deflated'
  /** Bytes when inflated, as the directory tells; less or more is an error. */
  readonly length: number
  /**
   * Writes the content to `path` (made or emptied, 0600). Bytes that `onProgress` counts can be
   * read there at once. Rejects with `corrupt` (damaged data, wrong CRC or length), `too-large`, or
   * what the source, the disk and `makeRoom` reject with. Then nothing is left at `path`.
   */
  inflateTo(path: string, options?: InflateOptions): Promise<void>
}

export type MemberContent = UncompressedContent | DeflatedContent

/** No deflated data holds more than this many times its length. Less than so much is told by inflating it. */
const MAX_RATIO = 1032
const RATIO_FROM_BYTES = 100_000_000
/** Deflated data is hardly longer than its content; beyond this it is not read into memory. */
const MAX_OVERHEAD_BYTES = 64 * 1024

/**
 * Opens a member's content; reads its local header only.
 * @throws DriveError `forbidden` (encrypted), `unsupported` (a method other than uncompressed and deflated),
 * `too-large` (it tells more than its data can hold), `corrupt`.
 */
export async function openMember(
  archive: Archive,
  node: LeafNode,
  signal?: AbortSignal,
): Promise<MemberContent> {
  const { member } = node
  const { source } = archive
  checkReadable(member, node.name)
  const range = await dataRange(source, member, signal)
  if (member.method === METHOD.uncompressed)
    return new UncompressedContent({ source, range, crc32: member.crc32 })
  refuseImpossible(member)
  return {
    kind: 'deflated',
    length: member.size,
    inflateTo: (path, options = {}) => inflateToFile({ source, range, member }, path, options),
  }
}

/**
 * Reads a small member whole.
 * @throws DriveError as `openMember`; `too-large` also when the member has more than `maxBytes`.
 */
export async function readMember(
  archive: Archive,
  node: LeafNode,
  options: { readonly maxBytes: number; readonly signal?: AbortSignal | undefined },
): Promise<Buffer> {
  const { member } = node
  checkWhole(node, options.maxBytes)
  const range = await dataRange(archive.source, member, options.signal)
  const data = await readExactly(archive.source, range.position, range.length, options.signal)
  return wholeContent(data, member)
}

/** As `readMember`, at once; undefined when something of it must be waited for. */
export function readMemberNow(
  archive: Archive,
  node: LeafNode,
  options: { readonly maxBytes: number },
): Buffer | undefined {
  const { member } = node
  checkWhole(node, options.maxBytes)
  const range = dataRangeNow(archive.source, member)
  if (range === undefined) return undefined
  const data = readExactlyNow(archive.source, range.position, range.length)
  return data === undefined ? undefined : wholeContent(data, member)
}

/**
 * The kernel asks for no byte of content that has none, so what is wrong with it is to be told when it is opened.
 * @throws DriveError `corrupt`
 */
export function refuseFalselyEmpty({ member, name }: LeafNode): void {
  if (member.size > 0 || member.crc32 === 0 || isEncrypted(member)) return
  throw new DriveError('corrupt', `The zip is damaged: "${name}" has no bytes, and a sum of some.`)
}

function checkWhole({ member, name }: LeafNode, maxBytes: number): void {
  checkReadable(member, name)
  const isLarge = member.size > maxBytes || member.compressedSize > maxBytes + MAX_OVERHEAD_BYTES
  if (isLarge) throw tooLarge(member)
}

function checkReadable(member: ZipMember, name: string): void {
  if (isEncrypted(member)) {
    throw new DriveError('forbidden', `"${name}" is encrypted in the zip.`, {
      hint: 'Unpack the zip with a program that asks for the password.',
    })
  }
  if (member.method !== METHOD.uncompressed && member.method !== METHOD.deflated) {
    throw new DriveError(
      'unsupported',
      `"${name}" is compressed by method ${member.method}, which bagfs does not know.`,
    )
  }
  if (member.method === METHOD.uncompressed && member.size !== member.compressedSize) {
    throw new DriveError('corrupt', `The zip is damaged: "${name}" has two different sizes.`)
  }
}

function refuseImpossible(member: ZipMember): void {
  const { size, compressedSize } = member
  if (size > RATIO_FROM_BYTES && size > compressedSize * MAX_RATIO) throw tooLarge(member)
}

function tooLarge(member: ZipMember): DriveError {
  return new DriveError(
    'too-large',
    `An entry of ${member.compressedSize} bytes that inflates to ${member.size} is over the limits.`,
  )
}
