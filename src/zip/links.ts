import { isDriveError } from '../domain/errors.ts'
import { readMember } from './content.ts'
import type { Archive } from './archive.ts'
import { DEFAULT_FILE_MODE, type ArchiveNode, type DirectoryNode, type LeafNode } from './tree.ts'
import { decodeUtf8 } from './zip-parse.ts'

/** Longest link that Linux takes, in bytes. */
const MAX_LINK_BYTES = 4095

/** Why a link cannot be read, also later. */
const LASTING = ['corrupt', 'forbidden', 'gone', 'unsupported', 'too-large'] as const

/** How a tree is walked, so that trees other than an archive's can be asked too. */
export interface TreeSteps<Directory> {
  /** The parent, or undefined above the root. */
  up(directory: Directory): Directory | undefined
  /** A real directory of that name (no symlink), or undefined. */
  down(directory: Directory, name: string): Directory | undefined
}

/**
 * True when a symlink in `start` with this target cannot lead out of the tree. Counting `..` is not
 * enough: `link/..` leaves when `link` is a symlink to the root. So `..` may only follow names that
 * are real directories; everything else stays below where it is.
 */
export function staysInside<Directory>(
  target: string,
  start: Directory,
  steps: TreeSteps<Directory>,
): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0')) return false
  let at: Directory | undefined = start
  for (const part of target.split('/')) {
    if (part === '' || part === '.') continue
    if (part !== '..') at = at === undefined ? undefined : steps.down(at, part)
    else {
      at = at === undefined ? undefined : steps.up(at)
      if (at === undefined) return false
    }
  }
  return true
}

/**
 * Reads the targets of the symlinks among `nodes` (of one directory, say). Sets `linkTarget`, or
 * makes a plain file of a link that leaves the folder or cannot be read. Until then a symlink's
 * `type` is a guess, so it is to be called before the type is shown. Costs nothing for nodes whose
 * targets are read.
 * @throws DriveError when the source cannot be read now (`unavailable` ...); links before it keep their targets.
 */
export async function readLinkTargets(
  archive: Archive,
  nodes: Iterable<ArchiveNode>,
  signal?: AbortSignal,
): Promise<void> {
  for (const node of nodes) {
    if (node.type !== 'symlink' || node.linkTarget !== undefined) continue
    const target = await targetOf(archive, node, signal)
    const changed: { -readonly [Key in keyof LeafNode]: LeafNode[Key] } = node
    changed.linkTarget = target
    if (target !== undefined) continue
    // The permissions of a link are all set and mean nothing.
    changed.type = 'file'
    changed.mode = DEFAULT_FILE_MODE
  }
}

const treeSteps: TreeSteps<DirectoryNode> = {
  up: (directory) => directory.parent,
  down: (directory, name) => {
    const child = directory.children.get(name)
    return child?.type === 'directory' ? child : undefined
  },
}

async function targetOf(
  archive: Archive,
  node: LeafNode,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  if (node.parent === undefined) return undefined
  try {
    const bytes = await readMember(archive, node, { maxBytes: MAX_LINK_BYTES, signal })
    const target = decodeUtf8(bytes)
    if (target === undefined) return undefined
    return staysInside(target, node.parent, treeSteps) ? target : undefined
  } catch (error) {
    // As a file it is listed, and opening it tells what is wrong.
    if (isDriveError(error, ...LASTING)) return undefined
    throw error
  }
}
