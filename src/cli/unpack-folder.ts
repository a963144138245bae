import { chmod, mkdir, open, symlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { fromFileSystem } from '../domain/errors.ts'
import { openArchive } from '../folder/archive.ts'
import type { Archive } from '../folder/archive.ts'
import { openEntry } from '../folder/content.ts'
import { settleLinks } from '../folder/links.ts'
import { fileSource } from '../folder/source.ts'
import type { StoredContent } from '../folder/stored-content.ts'
import { pathOf, walkTree } from '../folder/tree.ts'
import type { DirectoryNode, LeafNode } from '../folder/tree.ts'
import { writeFully } from './write-fully.ts'

const MAX_NODES = 5_000_000
/** An honest folder may hold files of any size; bombs are told by their ratio. */
const MAX_ENTRY_BYTES = Number.MAX_SAFE_INTEGER
const PIECE_BYTES = 1024 * 1024

/**
 * Unpacks a folder bag's zip into `target`, an existing empty directory. Names are made safe by the
 * archive's tree, and symlinks that lead out of the folder become plain files.
 */
export async function unpackFolder(
  zip: string,
  target: string,
  options: { readonly folderName: string; readonly signal: AbortSignal },
): Promise<void> {
  const { folderName, signal } = options
  const source = await fileSource(zip)
  try {
    const limits = { maxNodes: MAX_NODES, maxEntryBytes: MAX_ENTRY_BYTES }
    const archive = await openArchive(source, { limits, folderName, signal })
    await unpackTree(archive, target, signal)
  } finally {
    await source.close()
  }
}

async function unpackTree(archive: Archive, target: string, signal: AbortSignal): Promise<void> {
  const directories: DirectoryNode[] = []
  const links: LeafNode[] = []
  await settleLinks(archive, walkTree(archive.root), signal)
  for (const node of walkTree(archive.root)) {
    const path = join(target, pathOf(node))
    if (node.type === 'directory') {
      directories.push(node)
      await local(path, () => mkdir(path, { mode: 0o700 }))
    } else if (node.linkTarget === undefined) {
      await unpackFile(archive, node, path, signal)
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
  for (const { mode, mtimeMs, ...node } of directories.reverse().map(withPath)) {
    const path = join(target, node.path)
    await local(path, () => setAttributes(path, mode, mtimeMs))
  }
}

function withPath(node: DirectoryNode): { path: string; mode: number; mtimeMs: number } {
  return { path: pathOf(node), mode: node.mode, mtimeMs: node.mtimeMs }
}

async function unpackFile(
  archive: Archive,
  node: LeafNode,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const content = await openEntry(archive, node, signal)
  if (content.kind === 'deflated') await content.inflateTo(path, { signal })
  else await copyStored(content, path, signal)
  await local(path, () => setAttributes(path, node.mode, node.mtimeMs))
}

async function copyStored(
  content: StoredContent,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const file = await local(path, () => open(path, 'wx', 0o600))
  try {
    const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(content.length, 1)))
    for (let position = 0; position < content.length;) {
      const filled = await content.readAt(buffer, position, signal)
      await writeFully(file, buffer.subarray(0, filled), position)
      position += filled
    }
  } finally {
    await file.close()
  }
}

async function setAttributes(path: string, mode: number, mtimeMs: number): Promise<void> {
  await chmod(path, mode)
  await utimes(path, mtimeMs / 1000, mtimeMs / 1000)
}

async function local<T>(path: string, task: () => Promise<T>): Promise<T> {
  try {
    return await task()
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
}
