import { findRegistryDirs } from '../config/registry-dirs.ts'
import { askStatus } from '../control/client.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { WatchedDrive } from '../web/watched-drive.ts'
import type { DrivePlace, LiveDrive } from './drive-places.ts'
import { mountAgain } from './mount-again.ts'
import { withOutbox, type OutboxAccess } from './outbox-access.ts'
import { trashOf, type TrashAccess } from './trash-access.ts'

/** What is mounted at the mountpoint of `found`, now and later; between mounts what the last one left on disk. */
export function watchDrive(found: LiveDrive, log: Logger): WatchedDrive {
  const { mountpoint } = found
  const registry = new DriveRegistry(findRegistryDirs())
  let last: RunningDrive = found
  const live = async (): Promise<LiveDrive | undefined> => {
    const known = await registry.find(mountpoint)
    const status = known && (await askStatus(known.socketPath))
    if (known === undefined || status === undefined) return undefined
    last = known
    return { ...known, status }
  }
  const place = async (): Promise<DrivePlace> => {
    const drive = await live()
    if (drive !== undefined) return { kind: 'live', drive }
    const { stateDir } = last
    if (stateDir !== undefined) return { kind: 'idle', stateDir }
    throw new DriveError('unavailable', 'The drive is not mounted.')
  }
  const outbox = async <Result>(task: (access: OutboxAccess) => Promise<Result>): Promise<Result> =>
    withOutbox(await place(), log, task)
  const trash = async (): Promise<TrashAccess> => trashOf(await place(), log)
  return {
    mountpoint,
    mountAgain: () => mountAgain(last),
    status: async () => (await live())?.status,
    outbox: () => outbox((access) => access.list()),
    trash: async () => (await trash()).list(),
    retry: (ids) => outbox((access) => access.retry(ids)),
    discard: (ids) => outbox((access) => access.discard(ids)),
    restore: async (id, options) => (await trash()).restore(id, options),
  }
}
