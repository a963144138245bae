import type Fuse from 'fuse-native'
import { DriveError } from '../domain/errors.ts'
import { checkEncoding } from '../domain/names.ts'
import type { OperationDeps } from './operation-deps.ts'

export function nameOperations(deps: OperationDeps): Partial<Fuse.PathHandlers> {
  const { drive, paths, replies } = deps
  return {
    unlink: (path, reply) => {
      replies.done({ operation: 'unlink', path, reply }, async () => {
        if (paths.forget(path)) return
        const { parent, name } = await paths.parent(path)
        await drive.unlink(parent, name)
      })
    },
    rename: (from, to, reply) => {
      replies.done({ operation: 'rename', path: from, reply }, () => rename(deps, from, to))
    },
    mkdir: (path, mode, reply) => {
      replies.done({ operation: 'mkdir', path, reply }, async () => {
        const { parent, name } = await paths.parent(path)
        await drive.makeDirectory(parent, name, mode & 0o7777)
      })
    },
    rmdir: (path, reply) => {
      replies.done({ operation: 'rmdir', path, reply }, async () => {
        paths.refuseHolding(path)
        const { parent, name } = await paths.parent(path)
        await drive.removeDirectory(parent, name)
      })
    },
    symlink: (target, path, reply) => {
      replies.done({ operation: 'symlink', path, reply }, async () => {
        checkEncoding(target)
        const { parent, name } = await paths.parent(path)
        await drive.makeSymlink(parent, name, target)
      })
    },
    readlink: (path, reply) => {
      replies.value(
        { operation: 'readlink', path, reply },
        async () => drive.readSymlink(await paths.node(path)),
        (target) => {
          reply(0, target)
        },
      )
    },
    link: (_from, to, reply) => {
      const error = new DriveError('not-permitted', 'The service has no hard links.')
      reply(replies.failure({ operation: 'link', path: to, reply }, error))
    },
  }
}

/** libfuse renames an open file away instead of unlinking or replacing it: that is an unlink. */
async function rename(deps: OperationDeps, from: string, to: string): Promise<void> {
  const { drive, paths, parting } = deps
  if (await parting.take(from, to)) return
  const source = await paths.parent(from)
  if (paths.isHiding(to)) {
    const options = { mayBeReplaced: true }
    paths.hide(to, await drive.unlink(source.parent, source.name, options))
    return
  }
  paths.refuseHolding(to)
  const target = await paths.parent(to)
  await drive.rename(source.parent, source.name, target.parent, target.name)
  paths.renamed(from, to)
}
