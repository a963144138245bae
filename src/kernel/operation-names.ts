import type Fuse from 'fuse-native'
import type { BridgeKind } from './bridge.ts'
import type { OpcodeName } from './dev-fuse/opcodes.ts'

/** Those that operations.ts has an answer for. */
const OF_DEV_FUSE: readonly OpcodeName[] = [
  'LOOKUP',
  'GETATTR',
  'SETATTR',
  'READLINK',
  'STATFS',
  'OPENDIR',
  'READDIR',
  'READDIRPLUS',
  'RELEASEDIR',
  'FSYNCDIR',
  'MKDIR',
  'MKNOD',
  'SYMLINK',
  'UNLINK',
  'RMDIR',
  'RENAME',
  'RENAME2',
  'LINK',
  'OPEN',
  'CREATE',
  'TMPFILE',
  'READ',
  'WRITE',
  'FALLOCATE',
  'COPY_FILE_RANGE',
  'COPY_FILE_RANGE_64',
  'LSEEK',
  'FLUSH',
  'FSYNC',
  'RELEASE',
  'GETXATTR',
  'LISTXATTR',
  'SETXATTR',
  'REMOVEXATTR',
  'DESTROY',
]

/** Those of `fuseOperations`. */
const OF_FUSE_NATIVE: readonly (keyof Fuse.PathHandlers)[] = [
  'statfs',
  'getattr',
  'fgetattr',
  'flush',
  'fsync',
  'fsyncdir',
  'readdir',
  'truncate',
  'ftruncate',
  'utimens',
  'readlink',
  'chown',
  'chmod',
  'mknod',
  'setxattr',
  'getxattr',
  'listxattr',
  'removexattr',
  'open',
  'read',
  'write',
  'release',
  'create',
  'unlink',
  'rename',
  'link',
  'symlink',
  'mkdir',
  'rmdir',
]

/** What operations are called over a bridge, in metrics and traces. Asking for it loads no bridge. */
export function operationNames(bridge: BridgeKind): readonly string[] {
  const names = bridge === 'dev-fuse' ? OF_DEV_FUSE : OF_FUSE_NATIVE
  return names.map((name) => name.toLowerCase())
}
