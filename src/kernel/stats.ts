import { constants as fsConstants } from 'node:fs'
import type Fuse from 'fuse-native'
import type { Attributes, SpaceReport } from '../drive/attributes.ts'
import type { BridgeSettings } from './bridge.ts'

const TYPE_BITS: Record<Attributes['kind'], number> = {
  file: fsConstants.S_IFREG,
  directory: fsConstants.S_IFDIR,
  symlink: fsConstants.S_IFLNK,
}

/** Where fuse-native's arrays of a stat have mode and inode number, and how long they are (its index.js). */
const MODE_AT = 0
const INODE_AT = 7
const STAT_LENGTH = 18
/** libfuse's own "unknown": programs take the number from stat. */
const UNKNOWN_INODE = 0xffff_ffff

function kindStat(mode: number): Uint32Array {
  const stat = new Uint32Array(STAT_LENGTH)
  stat[MODE_AT] = mode
  stat[INODE_AT] = UNKNOWN_INODE
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
    mode: TYPE_BITS[attributes.kind] | attributes.mode,
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
