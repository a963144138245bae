import type { KeptAttributes } from '../domain/attributes.ts'
import { DriveError } from '../domain/errors.ts'
import type { Archive } from './archive.ts'
import type { LeafNode } from './tree.ts'
import { MAX_16, S_IFDIR, S_IFLNK, S_IFREG } from './zip-format.ts'

/** Content of a file or symlink that goes into an archive. */
export type PlanContent =
  /** A local file; `length` in bytes is compared and, where others `mayChange` it meanwhile, its times before and after. */
  | {
      readonly from: 'file'
      readonly path: string
      readonly length: number
      readonly mayChange?: boolean
    }
  /** Copied from an archive without inflating. What was zipped as a symlink stays one. */
  | { readonly from: 'archive'; readonly archive: Archive; readonly node: LeafNode }

interface PlanBase extends KeptAttributes {
  /** Relative to the folder, names parted by `/`. */
  readonly path: string
}

/** One thing that goes into an archive, in the archive's order. */
export type PlanItem =
  | (PlanBase & { readonly type: 'directory' })
  | (PlanBase & { readonly type: 'file'; readonly content: PlanContent })
  | (PlanBase & { readonly type: 'symlink'; readonly linkTarget: string })

export type Plan = Iterable<PlanItem> | AsyncIterable<PlanItem>

/**
 * The name of an item's member as bytes.
 * @throws DriveError `bad-name` for a path that would leave the folder or that UTF-8 cannot hold,
 * `name-too-long` for one that the format cannot.
 */
export function memberName(item: PlanItem): Buffer {
  const isPlain = item.path
    .split('/')
    .every((name) => name !== '' && name !== '.' && name !== '..' && !name.includes('\0'))
  const name = Buffer.from(item.type === 'directory' ? `${item.path}/` : item.path)
  if (!isPlain || !name.toString().startsWith(item.path)) {
    throw new DriveError('bad-name', `"${item.path}" is no path that a zip can hold.`)
  }
  if (name.length > MAX_16) throw new DriveError('name-too-long', 'A path is over 65,535 bytes.')
  return name
}

const TYPE_BITS = { directory: S_IFDIR, file: S_IFREG } as const

const LINK_MODE = S_IFLNK | 0o777

/** File type and permission bits of an item's member. */
export function memberMode(item: PlanItem): number {
  const isLink =
    item.type === 'file' &&
    item.content.from === 'archive' &&
    item.content.node.zippedAs === 'symlink'
  return isLink || item.type === 'symlink' ? LINK_MODE : TYPE_BITS[item.type] | (item.mode & 0o7777)
}
