import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { askContent, askOutbox, askStatus } from '../control/client.ts'
import type { OutboxItem } from '../control/protocol.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { discardIntents } from '../outbox/discard.ts'
import { chooseItems, listItems } from '../outbox/items.ts'
import { Outbox } from '../outbox/outbox.ts'
import { withoutFailure } from '../outbox/schedule.ts'
import { acquireLock } from '../state/lock.ts'
import type { DrivePlace } from './drive-places.ts'

/** The outbox of one account, as `bagfs outbox` uses it. Ids may be names. */
export interface OutboxAccess {
  list(): Promise<readonly OutboxItem[]>
  /** All that failed, without ids. */
  retry(ids: readonly string[]): Promise<readonly OutboxItem[]>
  discard(ids: readonly string[]): Promise<readonly OutboxItem[]>
  content(id: string): Promise<Readable>
}

/** Gives `task` the outbox: that of a running drive, or the one on disk under the lock of its directory. */
export async function withOutbox<Result>(
  place: DrivePlace,
  log: Logger,
  task: (outbox: OutboxAccess) => Promise<Result>,
): Promise<Result> {
  if (place.kind === 'live') return task(overSocket(place.drive.socketPath))
  const lock = await acquireLock(place.stateDir)
  try {
    const outbox = await Outbox.open(
      { clock: systemClock, log },
      { dir: join(place.stateDir, 'outbox') },
    )
    try {
      return await task(onDisk(outbox))
    } finally {
      await outbox.close()
    }
  } finally {
    await lock.release()
  }
}

function overSocket(socketPath: string): OutboxAccess {
  return {
    list: async () => {
      const status = await askStatus(socketPath)
      if (status === undefined) throw new DriveError('unavailable', 'The drive has left.')
      return status.outbox
    },
    retry: (ids) => askOutbox(socketPath, 'retry', ids),
    discard: (ids) => askOutbox(socketPath, 'discard', ids),
    content: (id) => askContent(socketPath, id),
  }
}

function onDisk(outbox: Outbox): OutboxAccess {
  const items = () => listItems(outbox.intents())
  return {
    list: () => Promise.resolve(items()),
    retry: async (ids) => {
      const failed = items().filter(({ failure }) => failure !== undefined)
      const chosen = ids.length === 0 ? failed : chooseItems(items(), ids)
      for (const { id } of chosen) await outbox.update(id, withoutFailure, { durable: true })
      return chosen
    },
    discard: async (ids) => {
      const chosen = chooseItems(items(), ids)
      const meant = chosen.map(({ id }) => id)
      await discardIntents(outbox, meant, () => false)
      return chosen
    },
    content: (wanted) => Promise.resolve().then(() => openStaged(outbox, wanted)),
  }
}

function openStaged(outbox: Outbox, wanted: string): Readable {
  const [item] = chooseItems(listItems(outbox.intents()), [wanted])
  const intent = item && outbox.get(item.id)
  if (intent?.kind === 'put' && intent.content.from === 'staged') {
    return createReadStream(outbox.contentPath(intent.id))
  }
  throw new DriveError('not-found', `${item?.name ?? wanted} has no content in the outbox.`, {
    hint: 'Its content is at the service, or in its folder: mount the drive to read it.',
  })
}
