import { Structure } from './structure.ts'

/** The structures of the FUSE protocol, 7.31 and later, as fuse(4) and the kernel's uapi header lay them out. */

export const IN_HEADER = new Structure({
  length: 'u32',
  opcode: 'u32',
  /** Only its place: the number itself may need all of its 64 bits. */
  _unique: 'u64',
  node: 'u64',
  uid: 'u32',
  gid: 'u32',
  pid: 'u32',
  extensionLength: 'u16',
  _padding: 'u16',
})
/** Where both headers have the number of the request. */
export const UNIQUE_AT = 8

export const OUT_HEADER = new Structure({ length: 'u32', error: 'i32', _unique: 'u64' })

const ATTRIBUTES = {
  ino: 'u64',
  size: 'u64',
  blocks: 'u64',
  atime: 'i64',
  mtime: 'i64',
  ctime: 'i64',
  atimeNs: 'u32',
  mtimeNs: 'u32',
  ctimeNs: 'u32',
  mode: 'u32',
  nlink: 'u32',
  uid: 'u32',
  gid: 'u32',
  rdev: 'u32',
  blksize: 'u32',
  _flags: 'u32',
} as const

export const ENTRY_OUT = new Structure({
  node: 'u64',
  generation: 'u64',
  entryValid: 'u64',
  attrValid: 'u64',
  entryValidNs: 'u32',
  attrValidNs: 'u32',
  ...ATTRIBUTES,
})
export type EntryValues = Parameters<typeof ENTRY_OUT.encode>[0]

export const ATTR_OUT = new Structure({
  attrValid: 'u64',
  attrValidNs: 'u32',
  _dummy: 'u32',
  ...ATTRIBUTES,
})

export const INIT_IN = new Structure({
  major: 'u32',
  minor: 'u32',
  maxReadahead: 'u32',
  flags: 'u32',
})
/** What follows in INIT from version 7.36 on, where the kernel's flags have INIT_EXT. */
export const INIT_IN_MORE = new Structure({ flags2: 'u32' })
export const INIT_OUT = new Structure({
  major: 'u32',
  minor: 'u32',
  maxReadahead: 'u32',
  flags: 'u32',
  maxBackground: 'u16',
  congestionThreshold: 'u16',
  maxWrite: 'u32',
  timeGranularityNs: 'u32',
  maxPages: 'u16',
  _mapAlignment: 'u16',
  flags2: 'u32',
  maxStackDepth: 'u32',
  _unused2: 'u64',
  _unused3: 'u64',
  _unused4: 'u64',
})

export const FORGET_IN = new Structure({ lookups: 'u64' })
export const BATCH_FORGET_IN = new Structure({ count: 'u32', _dummy: 'u32' })
export const FORGET_ONE = new Structure({ node: 'u64', lookups: 'u64' })

export const GETATTR_IN = new Structure({ flags: 'u32', _dummy: 'u32', handle: 'u64' })
export const SETATTR_IN = new Structure({
  valid: 'u32',
  _padding: 'u32',
  handle: 'u64',
  size: 'u64',
  _lockOwner: 'u64',
  atime: 'i64',
  mtime: 'i64',
  _ctime: 'i64',
  atimeNs: 'u32',
  mtimeNs: 'u32',
  _ctimeNs: 'u32',
  mode: 'u32',
  _unused4: 'u32',
  uid: 'u32',
  gid: 'u32',
  _unused5: 'u32',
})

export const MKNOD_IN = new Structure({
  mode: 'u32',
  device: 'u32',
  umask: 'u32',
  _padding: 'u32',
})
export const MKDIR_IN = new Structure({ mode: 'u32', umask: 'u32' })
export const RENAME_IN = new Structure({ newParent: 'u64' })
export const RENAME2_IN = new Structure({ newParent: 'u64', flags: 'u32', _padding: 'u32' })
export const LINK_IN = new Structure({ node: 'u64' })

export const OPEN_IN = new Structure({ flags: 'u32', openFlags: 'u32' })
export const CREATE_IN = new Structure({
  flags: 'u32',
  mode: 'u32',
  umask: 'u32',
  openFlags: 'u32',
})
export const OPEN_OUT = new Structure({ handle: 'u64', flags: 'u32', backingId: 'i32' })
/** What FUSE_DEV_IOC_BACKING_OPEN takes. */
export const BACKING_MAP = new Structure({ fd: 'i32', flags: 'u32', _padding: 'u64' })
/** Of FICLONERANGE. */
export const CLONE_RANGE = new Structure({
  fd: 'u64',
  offset: 'u64',
  length: 'u64',
  toOffset: 'u64',
})
export const RELEASE_IN = new Structure({
  handle: 'u64',
  flags: 'u32',
  releaseFlags: 'u32',
  _lockOwner: 'u64',
})
export const FLUSH_IN = new Structure({
  handle: 'u64',
  _unused: 'u32',
  _padding: 'u32',
  _lockOwner: 'u64',
})
export const FSYNC_IN = new Structure({ handle: 'u64', flags: 'u32', _padding: 'u32' })
export const READ_IN = new Structure({
  handle: 'u64',
  offset: 'u64',
  size: 'u32',
  readFlags: 'u32',
  _lockOwner: 'u64',
  flags: 'u32',
  _padding: 'u32',
})
export const WRITE_IN = new Structure({
  handle: 'u64',
  offset: 'u64',
  size: 'u32',
  writeFlags: 'u32',
  _lockOwner: 'u64',
  flags: 'u32',
  _padding: 'u32',
})
export const WRITE_OUT = new Structure({ size: 'u32', _padding: 'u32' })

export const FALLOCATE_IN = new Structure({
  handle: 'u64',
  offset: 'u64',
  length: 'u64',
  mode: 'u32',
  _padding: 'u32',
})
export const COPY_FILE_RANGE_IN = new Structure({
  handle: 'u64',
  offset: 'u64',
  toNode: 'u64',
  toHandle: 'u64',
  toOffset: 'u64',
  length: 'u64',
  flags: 'u64',
})
export const COPY_FILE_RANGE_OUT = new Structure({ copied: 'u64' })

export const LSEEK_IN = new Structure({
  handle: 'u64',
  offset: 'u64',
  whence: 'u32',
  _padding: 'u32',
})
export const LSEEK_OUT = new Structure({ offset: 'u64' })

export const STATFS_OUT = new Structure({
  blocks: 'u64',
  bfree: 'u64',
  bavail: 'u64',
  files: 'u64',
  ffree: 'u64',
  bsize: 'u32',
  namelen: 'u32',
  frsize: 'u32',
  _padding: 'u32',
  _spare1: 'u64',
  _spare2: 'u64',
  _spare3: 'u64',
})

/** Without FUSE_SETXATTR_EXT, which is not negotiated. */
export const SETXATTR_IN = new Structure({ size: 'u32', flags: 'u32' })
export const GETXATTR_IN = new Structure({ size: 'u32', _padding: 'u32' })
export const GETXATTR_OUT = new Structure({ size: 'u32', _padding: 'u32' })

export const INTERRUPT_IN = new Structure({ _unique: 'u64' })

/** The name follows, and zeros up to a multiple of 8 bytes. */
export const DIRENT = new Structure({ ino: 'u64', offset: 'u64', nameLength: 'u32', type: 'u32' })

/** The name follows, ended by NUL. */
export const NOTIFY_INVAL_ENTRY = new Structure({ parent: 'u64', nameLength: 'u32', flags: 'u32' })

export const NOTIFY_INVAL_INODE = new Structure({ node: 'u64', offset: 'i64', length: 'i64' })
