import { DriveError } from '../domain/errors.ts'
import { findDirectory } from './directory-place.ts'
import { readDirectory } from './directory.ts'
import { readExactly, readExactlyNow } from './source.ts'
import type { RandomAccessSource } from './source.ts'
import { TreeBuilder } from './tree-builder.ts'
import type { DirectoryNode } from './tree.ts'
import { LENGTH, SIGNATURE } from './zip-format.ts'
import type { ZipMember } from './zip-format.ts'

export interface ArchiveLimits {
  /** Memory that the tree may take, in bytes, by the estimate of `TreeBuilder`. */
  readonly maxTreeBytes: number
}

export interface OpenArchiveOptions {
  readonly limits: ArchiveLimits
  /** Name of the folder: one top directory of this name is left out of the tree. */
  readonly folderName?: string
  readonly signal?: AbortSignal
}

/**
 * A record of some hundred bytes makes a few nodes at most in an honest zip. One whose paths are made of
 * short names makes a node of every two bytes.
 */
const TREE_SHARE = 16
/** What the tree of any zip may take. */
const TREE_BYTES = 64 * 1024 * 1024

/** A zip whose directory was read. It holds no resources of its own; the source is the caller's. */
export interface Archive {
  readonly root: DirectoryNode
  readonly source: RandomAccessSource
}

/**
 * Reads the tree of a zip from its central directory; contents are touched when they are opened.
 * Reads the tail and the directory only, in few large pieces.
 * @throws DriveError `corrupt` (no zip, or a damaged one), `unsupported` (a part of a split
 * archive), or what the source rejects with. `too-large` when its tree would take more than the
 * limit, or far more than its directory.
 */
export async function openArchive(
  source: RandomAccessSource,
  options: OpenArchiveOptions,
): Promise<Archive> {
  const { limits, signal } = options
  const place = await findDirectory(source, signal)
  const directoryBytes = place.end - place.start
  const builder = new TreeBuilder({
    maxBytes: Math.min(limits.maxTreeBytes, TREE_BYTES + TREE_SHARE * directoryBytes),
    isOwn: place.own,
  })
  const visit = builder.add.bind(builder)
  await readDirectory(source, place, visit, signal)
  const root = builder.finish(place.own ? undefined : options.folderName)
  return { root, source }
}

/** Where a member's data is in the source, compressed or not. */
export interface DataRange {
  readonly position: number
  /** Bytes. */
  readonly length: number
}

/**
 * Finds a member's data behind its local header.
 * @throws DriveError `corrupt` when there is no local header or the data goes beyond the source.
 */
export async function dataRange(
  source: RandomAccessSource,
  member: ZipMember,
  signal?: AbortSignal,
): Promise<DataRange> {
  return rangeOf(await readExactly(source, member.offset, LENGTH.local, signal), source, member)
}

/** As `dataRange`, at once; undefined when the header must be waited for. */
export function dataRangeNow(source: RandomAccessSource, member: ZipMember): DataRange | undefined {
  const header = readExactlyNow(source, member.offset, LENGTH.local)
  return header === undefined ? undefined : rangeOf(header, source, member)
}

function rangeOf(header: Buffer, source: RandomAccessSource, member: ZipMember): DataRange {
  if (header.readUInt32LE(0) !== SIGNATURE.local) {
    throw new DriveError('corrupt', 'The zip is damaged: an entry is not where its directory says.')
  }
  const position = member.offset + LENGTH.local + header.readUInt16LE(26) + header.readUInt16LE(28)
  if (position + member.compressedSize > source.length) {
    throw new DriveError('corrupt', 'The zip is damaged: an entry goes beyond its end.')
  }
  return { position, length: member.compressedSize }
}
