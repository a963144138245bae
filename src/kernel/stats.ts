import { constants as fsConstants } from 'node:fs'
import type Fuse from 'fuse-native'
import type { SpaceReport } from '../drive/space/space.ts'
import type { Attributes } from '../drive/tree/attributes.ts'
import type { BridgeSettings } from './bridge.ts'

const TYPE_BITS: Record<Attributes['kind'], number> = {
  file: fsConstants.S_IFREG,
  directory: fsConstants.S_IFDIR,
  symlink: fsConstants.S_IFLNK,
}

/** Where fuse-native's arrays of a stat have what, and how long they are (its index.js). */
const AT = {
  mode: 0,
  uid: 1,
  gid: 2,
  size: 3,
  nlink: 6,
  ino: 7,
  blksize: 9,
  blocks: 10,
  atime: 12,
  mtime: 14,
  ctime: 16,
} as const
const STAT_LENGTH = 18
/** libfuse's own "unknown": programs take the number from stat. */
const UNKNOWN_INODE = 0xffff_ffff

/** A stat as the native half of fuse-native reads it; zeros for none. Times are in ms since the epoch. */
export function toStatArray(stat: Fuse.Stat | undefined): Uint32Array {
  const array = new Uint32Array(STAT_LENGTH)
  if (stat === undefined) return array
  array[AT.mode] = stat.mode
  array[AT.uid] = stat.uid
  array[AT.gid] = stat.gid
  array[AT.nlink] = stat.nlink
  array[AT.ino] = stat.ino
  array[AT.blksize] = stat.blksize
  setWide(array, AT.size, stat.size)
  setWide(array, AT.blocks, stat.blocks)
  setWide(array, AT.atime, stat.atime)
  setWide(array, AT.mtime, stat.mtime)
  setWide(array, AT.ctime, stat.ctime)
  return array
}

/** Sets a number of up to 53 bits, its lower half first. */
function setWide(array: Uint32Array, at: number, value: number): void {
  const low = value % 2 ** 32
  array[at] = low
  array[at + 1] = (value - low) / 2 ** 32
}

function kindStat(mode: number): Uint32Array {
  const stat = new Uint32Array(STAT_LENGTH)
  stat[AT.mode] = mode
  stat[AT.ino] = UNKNOWN_INODE
  return stat
}

const KIND_STATS = {
  file: kindStat(TYPE_BITS.file),
  directory: kindStat(TYPE_BITS.directory),
  symlink: kindStat(TYPE_BITS.symlink),
  unknown: kindStat(0),
}

/**
 * What readdir tells of a name: its kind alone, which spares `find` and its like a stat of each file.
 * The array is shared: read-only.
 */
export function toKindStat(kind: Attributes['kind'] | 'unknown' = 'unknown'): Uint32Array {
  return KIND_STATS[kind]
}

export function toStat(attributes: Attributes, settings: BridgeSettings): Fuse.Stat {
  return {
    mode: TYPE_BITS[attributes.kind] | shownMode(attributes, settings),
    uid: settings.uid,
    gid: settings.gid,
    size: attributes.size,
    nlink: attributes.kind === 'directory' ? 2 : 1,
    ino: attributes.node,
    blksize: 4096,
    blocks: Math.ceil(attributes.size / 512),
    atime: Math.trunc(Math.max(attributes.atimeMs, 0)),
    mtime: Math.trunc(Math.max(attributes.mtimeMs, 0)),
    ctime: Math.trunc(Math.max(attributes.ctimeMs, 0)),
  }
}

/** A link has no permissions of its own: Linux shows all of them, and looks at what it leads to. */
function shownMode({ kind, mode }: Attributes, { umask }: BridgeSettings): number {
  return kind === 'symlink' ? 0o777 : mode & ~umask
}

/** fuse-native carries block counts in 32 bits: large accounts are counted in larger blocks. */
export function toStatFs(space: SpaceReport | undefined): Fuse.StatFs {
  const { capacity, free } = space ?? { capacity: 0, free: 0 }
  let block = 4096
  while (capacity / block > 0x7fff_ffff) block *= 2
  const bfree = Math.floor(free / block)
  return {
    bsize: block,
    frsize: block,
    blocks: Math.floor(capacity / block),
    bfree,
    bavail: bfree,
    files: 0,
    ffree: 0,
    favail: 0,
    fsid: 0,
    flag: 0,
    namemax: 255,
  }
}
