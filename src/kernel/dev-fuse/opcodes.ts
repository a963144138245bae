/** The operations of the protocol. What is not in `OPERATIONS` (operations.ts) is answered with ENOSYS. */
export const OPCODES = {
  LOOKUP: 1,
  FORGET: 2,
  GETATTR: 3,
  SETATTR: 4,
  READLINK: 5,
  SYMLINK: 6,
  MKNOD: 8,
  MKDIR: 9,
  UNLINK: 10,
  RMDIR: 11,
  RENAME: 12,
  LINK: 13,
  OPEN: 14,
  READ: 15,
  WRITE: 16,
  STATFS: 17,
  RELEASE: 18,
  FSYNC: 20,
  SETXATTR: 21,
  GETXATTR: 22,
  LISTXATTR: 23,
  REMOVEXATTR: 24,
  FLUSH: 25,
  INIT: 26,
  OPENDIR: 27,
  READDIR: 28,
  RELEASEDIR: 29,
  FSYNCDIR: 30,
  GETLK: 31,
  SETLK: 32,
  SETLKW: 33,
  ACCESS: 34,
  CREATE: 35,
  INTERRUPT: 36,
  BMAP: 37,
  DESTROY: 38,
  IOCTL: 39,
  POLL: 40,
  NOTIFY_REPLY: 41,
  BATCH_FORGET: 42,
  FALLOCATE: 43,
  READDIRPLUS: 44,
  RENAME2: 45,
  LSEEK: 46,
  COPY_FILE_RANGE: 47,
  SETUPMAPPING: 48,
  REMOVEMAPPING: 49,
  SYNCFS: 50,
  TMPFILE: 51,
  STATX: 52,
  /** Linux 6.18. */
  COPY_FILE_RANGE_64: 53,
} as const

export type OpcodeName = keyof typeof OPCODES

const NAMES: ReadonlyMap<number, OpcodeName> = new Map(
  Object.entries(OPCODES).map(([name, opcode]) => [opcode, name as OpcodeName]),
)

/** Undefined for what this version of the protocol does not have. */
export function opcodeName(opcode: number): OpcodeName | undefined {
  return NAMES.get(opcode)
}
