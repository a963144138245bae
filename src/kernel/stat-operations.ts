import type Fuse from 'fuse-native'
import type { OperationDeps } from './operation-deps.ts'
import { ownerChanges } from './owner.ts'
import { toKindStat, toStat, toStatFs } from './stats.ts'

type StatReply = (result: number, stat?: Fuse.Stat) => void

export function statOperations(deps: OperationDeps): Partial<Fuse.PathHandlers> {
  const { drive, paths, replies, settings } = deps
  const getattr = (path: string, reply: StatReply): void => {
    // Most of what `ls -l` asks: answered within the call.
    const now = paths.fileNow(path)
    if (now !== undefined) {
      reply(0, toStat(now, settings))
      return
    }
    replies.value(
      { operation: 'getattr', path, reply },
      async () => drive.getAttributes(await paths.node(path)),
      (attributes) => {
        reply(0, toStat(attributes, settings))
      },
    )
  }
  return {
    getattr,
    fgetattr: (path, _fd, reply) => {
      getattr(path, reply)
    },
    statfs: (path, reply) => {
      replies.value(
        { operation: 'statfs', path, reply },
        () => drive.space.report(),
        (space) => {
          reply(0, toStatFs(space))
        },
      )
    },
    readdir: (path, reply) => {
      replies.value(
        { operation: 'readdir', path, reply },
        async () => drive.readDirectory(await paths.node(path)),
        (entries) => {
          const names = ['.', '..']
          const kinds = [toKindStat('directory'), toKindStat('directory')]
          for (const { name, kind } of entries) {
            names.push(name)
            kinds.push(toKindStat(kind))
          }
          reply(0, names, kinds)
        },
      )
    },
    ...attributeChanges(deps),
  }
}

function attributeChanges(deps: OperationDeps): Partial<Fuse.PathHandlers> {
  const { drive, paths, replies, settings } = deps
  return {
    chmod: (path, mode, reply) => {
      replies.done({ operation: 'chmod', path, reply }, async () =>
        drive.setAttributes(await paths.node(path), { mode: mode & 0o7777 }),
      )
    },
    chown: (path, uid, gid, reply) => {
      replies.done({ operation: 'chown', path, reply }, async () => {
        const node = await paths.node(path)
        const before = await drive.getAttributes(node)
        await drive.setAttributes(node, ownerChanges({ uid, gid }, before, settings))
      })
    },
    utimens: (path, atimeMs, mtimeMs, reply) => {
      replies.done({ operation: 'utimens', path, reply }, async () =>
        drive.setAttributes(await paths.node(path), { atimeMs, mtimeMs }),
      )
    },
  }
}
