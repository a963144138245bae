import { constants as fsConstants } from 'node:fs'
import type Fuse from 'fuse-native'
import { systemClock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { HandleId, NodeId } from '../domain/ids.ts'
import type { Drive } from '../drive/drive.ts'
import { OpenDescriptors } from './open-descriptors.ts'
import { flushFile } from './flush-file.ts'
import { makeFile } from './make-file.ts'
import type { OperationDeps } from './operation-deps.ts'
import type { Paths } from './paths.ts'
import type { KernelCall, Replies } from './replies.ts'

/** How long the kernel trusts the attributes it was told, in ms: libfuse's default `attr_timeout`. */
const ATTRIBUTES_TRUSTED_MS = 1_000
const ACCESS_MODE = 0o3

export function fileOperations(deps: OperationDeps): Partial<Fuse.PathHandlers> {
  return { ...openings(deps), ...transfers(deps), ...closings(deps) }
}

function openings({ drive, paths, replies }: OperationDeps): Partial<Fuse.PathHandlers> {
  return {
    open: (path, flags, reply) => {
      replies.value(
        { operation: 'open', path, reply },
        async () => openFile(drive, await nodeToOpen(paths, path), flags),
        (handle) => {
          reply(0, handle)
        },
      )
    },
    create: (path, mode, reply) => {
      const task = async (): Promise<HandleId> => {
        const { parent, name } = await paths.parent(path)
        return (await drive.create(parent, name, mode & 0o7777)).handle
      }
      replies.value({ operation: 'create', path, reply }, task, (handle) => {
        reply(0, handle)
      })
    },
    mknod: (path, mode, device, reply) => {
      replies.done({ operation: 'mknod', path, reply }, async () => {
        const { parent, name } = await paths.parent(path)
        await makeFile(drive, parent, name, { mode, device })
      })
    },
  }
}

function transfers({ drive, paths, replies }: OperationDeps): Partial<Fuse.PathHandlers> {
  return {
    read: (path, fd, buffer, length, position, reply) => {
      transfer(replies, { operation: 'read', path, reply }, () =>
        drive.read(fd as HandleId, buffer.subarray(0, length), position),
      )
    },
    write: (path, fd, buffer, length, position, reply) => {
      transfer(replies, { operation: 'write', path, reply }, () =>
        drive.write(fd as HandleId, buffer.subarray(0, length), position),
      )
    },
    truncate: (path, size, reply) => {
      replies.done({ operation: 'truncate', path, reply }, async () =>
        drive.truncate(await paths.node(path), size),
      )
    },
    ftruncate: (path, fd, size, reply) => {
      replies.done({ operation: 'ftruncate', path, reply }, () =>
        drive.truncateOpen(fd as HandleId, size),
      )
    },
  }
}

/** The hot path: what is on the local disk is answered within the call. */
function transfer(replies: Replies, call: KernelCall, work: () => number | Promise<number>): void {
  try {
    const count = work()
    if (typeof count === 'number') call.reply(count)
    else replies.value(call, () => count, call.reply)
  } catch (error) {
    call.reply(replies.failure(call, error))
  }
}

function closings({
  drive,
  replies,
  settings,
  parting,
}: OperationDeps): Partial<Fuse.PathHandlers> {
  const descriptors = new OpenDescriptors({ clock: systemClock })
  return {
    flush: (path, fd, reply) => {
      replies.done({ operation: 'flush', path, reply }, () =>
        flushFile({ drive, descriptors }, settings.mountpoint, { handle: fd as HandleId, path }),
      )
    },
    fsync: (path, _datasync, fd, reply) => {
      replies.done({ operation: 'fsync', path, reply }, () => drive.fsync(fd as HandleId))
    },
    fsyncdir: (path, _datasync, _fd, reply) => {
      replies.done({ operation: 'fsyncdir', path, reply }, () => drive.fsyncDirectory())
    },
    release: (path, fd, reply) => {
      replies.done({ operation: 'release', path, reply }, async () => {
        await drive.release(fd as HandleId)
        parting.forgetClosed()
      })
    },
  }
}

/**
 * The kernel opens what it found a moment ago. When that is gone it must look again, which the
 * answer `stale` has it do. With `not-found`, O_CREAT would fail where it is to make the file.
 */
async function nodeToOpen(paths: Paths, path: string): Promise<NodeId> {
  try {
    return await paths.node(path)
  } catch (error) {
    if (!isDriveError(error, 'not-found')) throw error
    throw new DriveError('stale', error.message, { cause: error })
  }
}

async function openFile(drive: Drive, node: NodeId, flags: number): Promise<HandleId> {
  const truncate = (flags & fsConstants.O_TRUNC) !== 0
  const append = (flags & fsConstants.O_APPEND) !== 0
  const writable = (flags & ACCESS_MODE) !== 0
  const handle = await drive.open(node, {
    writable,
    truncate,
    append,
    keepsAtime: (flags & fsConstants.O_NOATIME) !== 0,
  })
  if (!writable) drive.noteRead(handle)
  // The kernel cuts reads at the size it last heard: a new one must not be read by the old size.
  const trustedUntil = drive.sizeChangedAtMs(node) + ATTRIBUTES_TRUSTED_MS + 20
  const wait = trustedUntil - systemClock.now()
  if (wait > 0 && !truncate) await systemClock.sleep(wait)
  return handle
}
