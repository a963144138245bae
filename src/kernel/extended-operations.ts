import { constants } from 'node:os'
import type Fuse from 'fuse-native'
import type { OperationDeps } from './operation-deps.ts'

export function extendedOperations({
  drive,
  paths,
  replies,
}: OperationDeps): Partial<Fuse.PathHandlers> {
  return {
    getxattr: (path, name, _position, reply) => {
      if (isOfTheSystem(name)) {
        reply(-constants.errno.EOPNOTSUPP)
        return
      }
      replies.value(
        { operation: 'getxattr', path, reply },
        async () => drive.extended.get(await paths.node(path), name),
        (value) => {
          reply(0, value)
        },
      )
    },
    listxattr: (path, reply) => {
      replies.value(
        { operation: 'listxattr', path, reply },
        async () => drive.extended.list(await paths.node(path)),
        (names) => {
          reply(0, names)
        },
      )
    },
    setxattr: (path, name, value, _position, _flags, reply) => {
      // The buffer is the kernel's and gone after the answer.
      const kept = Buffer.from(value)
      replies.done({ operation: 'setxattr', path, reply }, async () =>
        drive.extended.set(await paths.node(path), name, kept),
      )
    },
    removexattr: (path, name, reply) => {
      replies.done({ operation: 'removexattr', path, reply }, async () => {
        await drive.extended.remove(await paths.node(path), name)
      })
    },
  }
}

/**
 * Access lists, labels and capabilities, which the drive does not have. The kernel asks at each
 * write (`security.capability`), so this is answered without a look at the file. With the answer
 * "not supported" in place of "none", `ls -l` asks once per file system and not twice per file.
 */
export function isOfTheSystem(name: string): boolean {
  return name.startsWith('system.') || name.startsWith('security.')
}
