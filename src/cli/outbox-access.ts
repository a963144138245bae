import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { askContent, askOutbox, askStatus } from '../control/client.ts'
import type { DriveStatus, WireItem } from '../control/protocol.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError, fromFileSystem, isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { discardIntents } from '../outbox/discard.ts'
import { chooseItems, listItems } from '../outbox/items.ts'
import { Outbox } from '../outbox/outbox.ts'
import { withoutFailure } from '../intents/transitions.ts'
import { readOutbox, type OutboxOnDisk } from '../outbox/read-outbox.ts'
import type { DirectoryLock } from '../disk/directory-lock.ts'
import { acquireLock } from '../state/lock.ts'
import type { DrivePlace } from './drive-places.ts'

/** The outbox of one account, as `bagfs outbox` uses it. Ids may be names. */
export interface OutboxAccess {
  list(): Promise<readonly WireItem[]>
  /** Directories of changes that could not be read. */
  damaged(): Promise<readonly string[]>
  /** All that failed, without ids. */
  retry(ids: readonly string[]): Promise<readonly WireItem[]>
  discard(ids: readonly string[]): Promise<readonly WireItem[]>
  content(id: string): Promise<Readable>
}

/** Gives `task` the outbox: that of a running drive, or the one on disk. */
export async function withOutbox<Result>(
  place: DrivePlace,
  log: Logger,
  task: (outbox: OutboxAccess) => Promise<Result>,
): Promise<Result> {
  if (place.kind === 'live') return task(overSocket(place.drive.socketPath))
  return task(onDisk(place.stateDir, log))
}

function overSocket(socketPath: string): OutboxAccess {
  const status = async (): Promise<DriveStatus> => {
    const answer = await askStatus(socketPath)
    if (answer === undefined) throw new DriveError('unavailable', 'The drive has left.')
    return answer
  }
  return {
    list: async () => (await status()).outbox,
    damaged: async () => (await status()).damaged,
    retry: (ids) => askOutbox(socketPath, 'retry', ids),
    discard: (ids) => askOutbox(socketPath, 'discard', ids),
    content: (id) => askContent(socketPath, id),
  }
}

/** To look needs no lock; a change is made under the lock of the directory. */
function onDisk(stateDir: string, log: Logger): OutboxAccess {
  const dir = join(stateDir, 'outbox')
  return {
    list: async () => listItems((await readOutbox(dir)).intents),
    damaged: async () => (await readOutbox(dir)).damaged,
    content: async (wanted) => openStaged(await readOutbox(dir), wanted),
    retry: (ids) =>
      locked(stateDir, log, async (outbox) => {
        const items = listItems(outbox.intents())
        const failed = items.filter(({ failure }) => failure !== undefined)
        const chosen = ids.length === 0 ? failed : chooseItems(items, ids)
        for (const { id } of chosen) await outbox.update(id, withoutFailure, { durable: true })
        return chosen
      }),
    discard: (ids) =>
      locked(stateDir, log, async (outbox) => {
        const chosen = chooseItems(listItems(outbox.intents()), ids)
        const meant = chosen.map(({ id }) => id)
        await discardIntents(outbox, meant)
        return chosen
      }),
  }
}

async function locked<Result>(
  stateDir: string,
  log: Logger,
  task: (outbox: Outbox) => Promise<Result>,
): Promise<Result> {
  const lock = await lockOrFull(stateDir)
  try {
    const outbox = await Outbox.open({ clock: systemClock, log }, { dir: join(stateDir, 'outbox') })
    try {
      return await task(outbox)
    } finally {
      await outbox.close()
    }
  } finally {
    await lock?.release()
  }
}

/** On a full disk the lock can be had by no process: to discard makes room, and goes on without it. */
async function lockOrFull(stateDir: string): Promise<DirectoryLock | undefined> {
  try {
    return await acquireLock(stateDir)
  } catch (error) {
    if (isDriveError(error, 'local-disk-full')) return undefined
    throw error
  }
}

async function openStaged(outbox: OutboxOnDisk, wanted: string): Promise<Readable> {
  const [item] = chooseItems(listItems(outbox.intents), [wanted])
  const intent = outbox.intents.find(({ id }) => id === item?.id)
  if (intent?.kind === 'put' && intent.content.from === 'staged') {
    return (await openFile(outbox.contentPath(intent.id))).createReadStream()
  }
  throw new DriveError('not-found', `${item?.name ?? wanted} has no content in the outbox.`, {
    hint: 'Its content is at the service, or in its folder: mount the drive to read it.',
  })
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r')
  } catch (error) {
    throw fromFileSystem(error, `Reading ${path}`)
  }
}
