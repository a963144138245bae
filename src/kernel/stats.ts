import { constants as fsConstants } from 'node:fs'
import type Fuse from 'fuse-native'
import type { SpaceReport } from '../drive/space/space.ts'
import { BLOCK_BYTES } from '../drive/tree/allocated.ts'
import type { Attributes } from '../drive/tree/attributes.ts'
import type { BridgeSettings } from './bridge.ts'
import { shownOwner } from './owner.ts'

/** The type bits of a mode. */
export const TYPE_BITS: Record<Attributes['kind'], number> = {
  file: fsConstants.S_IFREG,
  directory: fsConstants.S_IFDIR,
  symlink: fsConstants.S_IFLNK,
  fifo: fsConstants.S_IFIFO,
  socket: fsConstants.S_IFSOCK,
  'character-device': fsConstants.S_IFCHR,
  'block-device': fsConstants.S_IFBLK,
}

/** Where fuse-native's arrays of a stat have what, and how long they are (its index.js). */
const AT = {
  mode: 0,
  uid: 1,
  gid: 2,
  size: 3,
  nlink: 6,
  ino: 7,
  rdev: 8,
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

const KIND_STATS: Record<Attributes['kind'] | 'unknown', Uint32Array> = {
  file: kindStat(TYPE_BITS.file),
  directory: kindStat(TYPE_BITS.directory),
  symlink: kindStat(TYPE_BITS.symlink),
  fifo: kindStat(TYPE_BITS.fifo),
  socket: kindStat(TYPE_BITS.socket),
  'character-device': kindStat(TYPE_BITS['character-device']),
  'block-device': kindStat(TYPE_BITS['block-device']),
  unknown: kindStat(0),
}

/**
 * What readdir tells of a name: its kind alone, which spares `find` and its like a stat of each file.
 * The array is shared: read-only.
 */
export function toKindStat(kind: Attributes['kind'] | 'unknown' = 'unknown'): Uint32Array {
  return KIND_STATS[kind]
}

/** As fuse-native takes it: whole milliseconds, and none before 1970. */
export function toStat(attributes: Attributes, settings: BridgeSettings): Fuse.Stat {
  return {
    mode: modeToTell(attributes, settings),
    ...shownOwner(attributes, settings),
    size: attributes.size,
    nlink: linksToTell(attributes),
    ino: attributes.node,
    blksize: 4096,
    blocks: blocksToTell(attributes),
    atime: Math.trunc(Math.max(attributes.atimeMs, 0)),
    mtime: Math.trunc(Math.max(attributes.mtimeMs, 0)),
    ctime: Math.trunc(Math.max(attributes.ctimeMs, 0)),
  }
}

/** The kind and the permission bits. */
export function modeToTell(
  attributes: Attributes,
  settings: Pick<BridgeSettings, 'umask'>,
): number {
  return TYPE_BITS[attributes.kind] | shownMode(attributes, settings)
}

/** Programs look for holes where these are fewer than the size has. */
export function blocksToTell({ size, allocated = size }: Attributes): number {
  return Math.ceil(Math.min(size, allocated) / BLOCK_BYTES)
}

/** 1 is what file systems tell that do not count directories: programs go by it. */
export function linksToTell({ links = 1 }: Attributes): number {
  return links
}

/** A link has no permissions of its own: Linux shows all of them, and looks at what it leads to. */
function shownMode({ kind, mode }: Attributes, { umask }: Pick<BridgeSettings, 'umask'>): number {
  return kind === 'symlink' ? 0o777 : mode & ~umask
}

/** An EiB: a service may tell sizes that the kernel, and `df`, cannot count. */
const MOST_BYTES = 2 ** 60

/**
 * fuse-native carries block counts in 32 bits: large accounts are counted in larger blocks. An account is no smaller than what
 * is free of it.
 */
export function toStatFs(space: SpaceReport | undefined): Fuse.StatFs {
  const told = space ?? { capacity: 0, free: 0 }
  const free = Math.min(told.free, MOST_BYTES)
  const capacity = Math.min(Math.max(told.capacity, free), MOST_BYTES)
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
