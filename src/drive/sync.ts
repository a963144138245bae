import PQueue from 'p-queue'
import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import { encodeName } from '../domain/names.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { clashKeyOf } from '../namespace/name-clashes.ts'
import type { Outbox } from '../outbox/outbox.ts'
import {
  isHeldFile,
  isLeftToDelete,
  isRefused,
  isSuperseded,
  isToLookAt,
  isToSend,
  mayDelete,
} from '../intents/rules.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { FolderUploads } from './folders/folder-uploads.ts'

interface SyncDeps {
  readonly folderUploads: FolderUploads
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly clock: Clock
}

/** Changes that are tried at the same time. */
const AT_ONCE = 8

/**
 * Resolves when the service has everything that was promised under a name of the root, or under any, steps of a
 * save too. What that takes the place of is deleted then. Tries each change once; rejects, when all were tried, with
 * the reason of the first that the service does not take.
 */
export async function syncNow(deps: SyncDeps, name?: string): Promise<void> {
  const { folderUploads, outbox, uploader } = deps
  const intents = outbox.intents().filter((intent) => isNamed(intent, name))
  const isPacked = (intent: Intent): boolean => uploader.isRunning(intent.id) || hasZip(intent)
  const packed = new Set(intents.filter(isPacked).map(({ id }) => id))
  const ids = new Set<IntentId>(await folderUploads.publish(name))
  for (const intent of outbox.intents()) {
    if (isNamed(intent, name) && (isToSend(intent) || isHeldFile(intent))) ids.add(intent.id)
  }
  if (ids.size > 0) await uploader.askAnew()
  const failures = new Map<IntentId, unknown>()
  await forEach(ids, failures, async (id) => {
    await attemptWhole(deps, id)
    // That zip was packed before: what came into the folder since goes with the next.
    const next = packed.has(id) ? await folderUploads.publishAgain(id) : undefined
    if (next !== undefined) await attemptWhole(deps, next)
  })
  // A folder that was emptied leaves a delete of its bag, and a stored change may have bags to delete yet.
  const rest = outbox
    .intents()
    .filter((intent) => isNamed(intent, name) && isLeftToDelete(outbox, intent))
    .map(({ id }) => id)
    .filter((id) => !failures.has(id))
  await forEach(rest, failures, (id) => deleteRest(deps, id))
  const looks = outbox
    .intents()
    .filter((intent) => isNamed(intent, name) && isToLookAt(intent, deps.clock.now()))
    .map(({ id }) => id)
  await forEach(looks, failures, (id) => lookAt(deps, id))
  for (const error of failures.values()) throw error
}

/** True for a folder whose zip may be at the service, though nothing has proven that: it is not packed anew. */
function hasZip(intent: Intent): boolean {
  return intent.kind === 'put' && intent.changes !== undefined && intent.content.from === 'staged'
}

/** Tries some of them at the same time, and all of them; tells of those that failed. */
async function forEach(
  ids: Iterable<IntentId>,
  failures: Map<IntentId, unknown>,
  task: (id: IntentId) => Promise<void>,
): Promise<void> {
  const queue = new PQueue({ concurrency: AT_ONCE })
  const attempts = Array.from(ids, (id) => async (): Promise<void> => {
    try {
      await task(id)
    } catch (error) {
      failures.set(id, error)
    }
  })
  await queue.addAll(attempts)
}

/** A try that was under way already may have failed before the service came back: another follows it. */
async function attemptWhole(
  { uploader, outbox }: Pick<SyncDeps, 'uploader' | 'outbox'>,
  id: IntentId,
): Promise<void> {
  await attemptAnew(uploader, id)
  // What the service only said that it has is sent again.
  if (isRefused(outbox.get(id))) await attemptAnew(uploader, id)
  const left = outbox.get(id)
  if (!isRefused(left) || left?.failure === undefined) return
  // The one in its place has its content, or newer content, and is tried as well.
  if (isSuperseded(outbox, id)) return
  throw new DriveError(left.failure.code, left.failure.message)
}

async function deleteRest(
  { uploader, outbox }: Pick<SyncDeps, 'uploader' | 'outbox'>,
  id: IntentId,
): Promise<void> {
  if (outbox.get(id)?.kind === 'delete') await attemptAnew(uploader, id)
  else await uploader.attemptRest(id)
  const left = outbox.get(id)
  if (left === undefined || !isLeftToDelete(outbox, left)) return
  if (left.failure !== undefined) throw new DriveError(left.failure.code, left.failure.message)
  if (mayDelete(left, outbox)) return
  throw new DriveError(
    'busy',
    `What was there before of ${left.name} stays: what was moved away from ${left.name} is not stored at its new place yet.`,
    { hint: 'bagfs status tells what waits, and which files are still being written.' },
  )
}

/** What a late delete took is stored once more. */
async function lookAt(deps: SyncDeps, id: IntentId): Promise<void> {
  const { uploader, outbox, clock } = deps
  await uploader.attemptRest(id)
  const left = outbox.get(id)
  if (left === undefined) return
  if (isToSend(left)) await attemptWhole(deps, id)
  if (!isToLookAt(left, clock.now())) return
  throw new DriveError(
    'unavailable',
    `Whether the service still has ${left.name} is not known: it gave no listing.`,
    { hint: 'bagfs status tells how the service is; the drive goes on to ask.' },
  )
}

async function attemptAnew(uploader: Uploader, id: IntentId): Promise<void> {
  const wasUnderWay = uploader.isRunning(id)
  try {
    await uploader.attempt(id)
  } catch (error) {
    if (!wasUnderWay) throw error
    await uploader.finished(id)
    await uploader.attempt(id)
  }
  await uploader.finished(id)
}

/** Several entries of one name differ by a mark that only the drive shows: all of them are meant. */
function isNamed(intent: Intent, name: string | undefined): boolean {
  if (name === undefined || intent.name === name) return true
  return clashKeyOf(encodeName(intent.name)) === clashKeyOf(name)
}
