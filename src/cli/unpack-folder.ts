import { chmod, mkdir, open, rm, stat, symlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { freeBytesOf } from '../content/cache-space.ts'
import { RoomMeter } from '../content/room-meter.ts'
import type { DriveError } from '../domain/errors.ts'
import { fromFileSystem, isDriveError } from '../domain/errors.ts'
import { openArchive } from '../zip/archive.ts'
import type { Archive } from '../zip/archive.ts'
import { openMember } from '../zip/content.ts'
import { readLinkTargets } from '../zip/links.ts'
import { refuseOverlaps } from '../zip/overlap.ts'
import { fileSource } from '../zip/source.ts'
import { SparseWriter } from '../zip/sparse-file.ts'
import type { MakeRoom } from '../zip/sparse-file.ts'
import type { UncompressedContent } from '../zip/uncompressed-content.ts'
import { pathOf, walkTree } from '../zip/tree.ts'
import type { DirectoryNode, LeafNode } from '../zip/tree.ts'

/** Five million files at least. */
const MAX_TREE_BYTES = 2 * 1024 * 1024 * 1024
/** What unpacking leaves free on the disk, but for as much as the zip itself takes. */
const FREE_BYTES = 100_000_000
const PIECE_BYTES = 1024 * 1024

interface UnpackOptions {
  readonly folderName: string
  readonly signal: AbortSignal
  /** Told of each entry that cannot be read; the others are unpacked. */
  readonly onSkipped: (path: string, error: DriveError) => void
  /** Bytes still free for us on the disk of `target`; asked of the file system by default. */
  readonly freeBytes?: (dir: string) => Promise<number>
}

/**
 * Unpacks a folder bag's zip into `target`, an existing empty directory with the modes of new ones.
 * Names are made safe by the archive's tree, and symlinks that lead out of the folder become plain files.
 * @throws DriveError `corrupt` (no zip that can be unpacked), `local-disk-full`, `local-io` ...
 */
export async function unpackFolder(
  zip: string,
  target: string,
  options: UnpackOptions,
): Promise<void> {
  const { folderName, signal, onSkipped, freeBytes = freeBytesOf } = options
  const source = await fileSource(zip)
  try {
    const limits = { maxTreeBytes: MAX_TREE_BYTES }
    const archive = await openArchive(source, { limits, folderName, signal })
    refuseOverlaps(archive.root)
    const hasRoom = async (bytes: number): Promise<boolean> =>
      (await freeBytes(target)) - bytes >= FREE_BYTES
    const room = new RoomMeter(hasRoom, source.length)
    const mask = (await local(target, () => stat(target))).mode & 0o777
    const makeRoom: MakeRoom = (bytes) => room.take(bytes)
    await unpackTree(archive, target, { mask, signal, onSkipped, makeRoom })
  } finally {
    await source.close()
  }
}

interface UnpackSettings extends Pick<UnpackOptions, 'signal' | 'onSkipped'> {
  /** Permission bits that the umask leaves. */
  readonly mask: number
  readonly makeRoom: MakeRoom
}

async function unpackTree(
  archive: Archive,
  target: string,
  settings: UnpackSettings,
): Promise<void> {
  const { mask, signal } = settings
  const directories: DirectoryNode[] = []
  const links: LeafNode[] = []
  await readLinkTargets(archive, walkTree(archive.root), signal)
  for (const node of walkTree(archive.root)) {
    const path = join(target, pathOf(node))
    if (node.type === 'directory') {
      directories.push(node)
      await local(path, () => mkdir(path, { mode: 0o700 }))
    } else if (node.linkTarget === undefined) {
      await unpackReadable(archive, node, path, settings)
    } else {
      links.push(node)
    }
  }
  // Links come when every file is written, so that nothing is ever written through one.
  for (const link of links) {
    const path = join(target, pathOf(link))
    await local(path, () => symlink(link.linkTarget ?? '', path))
  }
  // A directory's time and mode are set when nothing more goes into it: the innermost first.
  for (const directory of directories.reverse()) {
    await setAttributes(join(target, pathOf(directory)), directory, mask)
  }
}

/** One entry that cannot be read must not cost all others. */
async function unpackReadable(
  archive: Archive,
  node: LeafNode,
  path: string,
  settings: UnpackSettings,
): Promise<void> {
  try {
    await unpackFile(archive, node, path, settings)
    await setAttributes(path, node, settings.mask)
  } catch (error) {
    if (!isDriveError(error, 'corrupt', 'forbidden', 'unsupported', 'too-large')) throw error
    await local(path, () => rm(path, { force: true }))
    settings.onSkipped(pathOf(node), error)
  }
}

async function unpackFile(
  archive: Archive,
  node: LeafNode,
  path: string,
  { signal, makeRoom }: UnpackSettings,
): Promise<void> {
  const content = await openMember(archive, node, signal)
  if (content.kind === 'deflated') await content.inflateTo(path, { signal, makeRoom })
  else await copyUncompressed(content, path, { signal, makeRoom })
}

async function copyUncompressed(
  content: UncompressedContent,
  path: string,
  { signal, makeRoom }: Pick<UnpackSettings, 'signal' | 'makeRoom'>,
): Promise<void> {
  const file = await local(path, () => open(path, 'wx', 0o600))
  try {
    const target = new SparseWriter(file, makeRoom)
    const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(content.length, 1)))
    while (target.length < content.length) {
      const filled = await content.readAt(buffer, target.length, signal)
      await local(path, () => target.write(buffer.subarray(0, filled)))
    }
  } finally {
    await file.close()
  }
}

async function setAttributes(
  path: string,
  { mode, mtimeMs }: DirectoryNode | LeafNode,
  mask: number,
): Promise<void> {
  await local(path, async () => {
    await chmod(path, mode & mask)
    await utimes(path, mtimeMs / 1000, mtimeMs / 1000)
  })
}

async function local<T>(path: string, task: () => Promise<T>): Promise<T> {
  try {
    return await task()
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
}
