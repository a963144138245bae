import { join } from 'node:path'
import { askToEmptyTrash, askToRestore, askTrash } from '../control/client.ts'
import type { WireTrashItem } from '../control/protocol.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { checkTypedName } from '../domain/names.ts'
import { newPut } from '../intents/builders.ts'
import { indexListing } from '../namespace/listing-index.ts'
import { buildTree } from '../namespace/tree.ts'
import { Outbox } from '../outbox/outbox.ts'
import { readOutbox } from '../outbox/read-outbox.ts'
import { onWayBack, stageRestored } from '../outbox/restored.ts'
import { ListingStore } from '../state/listing-store.ts'
import { acquireLock } from '../state/lock.ts'
import type { TrashItem } from '../trash/item.ts'
import { chooseItem } from '../trash/item-names.ts'
import { Trash } from '../trash/trash.ts'
import { TrashFiles } from '../trash/trash-files.ts'
import type { DrivePlace } from './drive-places.ts'

export interface RestoreFlags {
  readonly name?: string
  readonly replace: boolean
}

/** The trash of one account, as `bagfs trash` uses it. */
export interface TrashAccess {
  /** Newest first. */
  list(): Promise<readonly WireTrashItem[]>
  restore(wanted: string, flags: RestoreFlags): Promise<void>
  /** Removes items for good; all without ids. */
  empty(wanted: readonly string[]): Promise<readonly WireTrashItem[]>
}

/** The trash of a running drive, or the one on disk. */
export function trashOf(place: DrivePlace, log: Logger): TrashAccess {
  return place.kind === 'live' ? overSocket(place.drive.socketPath) : onDisk(place.stateDir, log)
}

function overSocket(socketPath: string): TrashAccess {
  return {
    list: () => askTrash(socketPath),
    restore: async (wanted, flags) => {
      await askToRestore(socketPath, wanted, flags)
    },
    empty: (wanted) => askToEmptyTrash(socketPath, wanted),
  }
}

/** To look needs no lock; a change is made under the lock of the directory. */
function onDisk(stateDir: string, log: Logger): TrashAccess {
  const dir = join(stateDir, 'trash')
  return {
    list: async () => notOnWayBack(await TrashFiles.read(dir), stateDir),
    restore: (wanted, flags) =>
      locked(stateDir, log, async (trash) => {
        const items = await notOnWayBack(trash.items(), stateDir)
        await restoreAtNextMount({ trash, stateDir, log }, chooseItem(items, wanted), flags)
      }),
    empty: (wanted) =>
      locked(stateDir, log, async (trash) => {
        const items = await notOnWayBack(trash.items(), stateDir)
        const chosen = wanted.length === 0 ? items : wanted.map((each) => chooseItem(items, each))
        await trash.remove(chosen.map(({ bagId }) => bagId))
        return chosen
      }),
  }
}

/** Without what the outbox has already, for the next mount to store. */
async function notOnWayBack(
  items: readonly TrashItem[],
  stateDir: string,
): Promise<readonly TrashItem[]> {
  const { intents } = await readOutbox(join(stateDir, 'outbox'))
  const back = onWayBack(intents)
  return items.filter(({ bagId }) => !back.has(bagId))
}

/** How long things are kept is a mount's business: nothing goes by being looked at. */
async function locked<Result>(
  stateDir: string,
  log: Logger,
  task: (trash: Trash) => Promise<Result>,
): Promise<Result> {
  const lock = await acquireLock(stateDir)
  try {
    const unlimited = { keptMs: Infinity, maxBytes: Infinity }
    const trash = await Trash.open(
      { clock: systemClock, log },
      { dir: join(stateDir, 'trash'), ...unlimited },
    )
    try {
      return await task(trash)
    } finally {
      await trash.close()
    }
  } finally {
    await lock.release()
  }
}

interface ForPuttingBack {
  readonly trash: Trash
  readonly outbox: Outbox
  readonly stateDir: string
}

/** The outbox has it then, and the next mount sends it. */
async function restoreAtNextMount(
  {
    trash,
    stateDir,
    log,
  }: {
    readonly trash: Trash
    readonly stateDir: string
    readonly log: Logger
  },
  item: TrashItem,
  { name = item.name, replace }: RestoreFlags,
): Promise<void> {
  checkTypedName(name)
  if (replace) {
    throw new DriveError('usage', 'What is there is only known while the drive is mounted.', {
      hint: 'Mount it, or give another name with --as NAME.',
    })
  }
  const outbox = await Outbox.open({ clock: systemClock, log }, { dir: join(stateDir, 'outbox') })
  try {
    await refuseTaken(name, { trash, outbox, stateDir })
    await putBack({ trash, outbox }, item, name)
  } finally {
    await outbox.close()
  }
}

/** By what the last mount knew; its listing may be older than a delete. */
async function refuseTaken(
  name: string,
  { trash, outbox, stateDir }: ForPuttingBack,
): Promise<void> {
  const records = (await new ListingStore(stateDir).load())?.records ?? []
  const index = indexListing(records.filter(({ bagId }) => trash.get(bagId) === undefined))
  if (buildTree(index, outbox.intents()).resolve(name) === undefined) return
  throw new DriveError('exists', `There is something called ${name} already.`, {
    hint: 'Give it another name with --as NAME.',
  })
}

async function putBack(
  { trash, outbox }: Pick<ForPuttingBack, 'trash' | 'outbox'>,
  item: TrashItem,
  name: string,
): Promise<void> {
  const now = systemClock.now()
  const draft = outbox.createDraft()
  try {
    const restored = await stageRestored({ outbox, files: trash.files }, item, draft.id)
    const put = newPut({
      id: draft.id,
      name,
      createdAtMs: now,
      ctimeMs: now,
      ...restored,
      mode: item.mode ?? (item.isFolder ? 0o755 : 0o644),
    })
    await outbox.add(put, { durable: true })
  } catch (error) {
    await outbox.discardDraft(draft.id)
    throw error
  }
}
