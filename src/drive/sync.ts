import PQueue from 'p-queue'
import { encodeName } from '../domain/names.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { familyOf } from '../namespace/family.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { isToSend } from '../intents/rules.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { Files } from './files.ts'
import type { FolderUploads } from './folder/folder-uploads.ts'
import type { Folders } from './folder/folders.ts'

interface SyncDeps {
  readonly files: Files
  readonly folders: Folders
  readonly folderUploads: FolderUploads
  readonly outbox: Outbox
  readonly uploader: Uploader
}

/** Changes that are tried at the same time. */
const AT_ONCE = 8

/**
 * Resolves when the service has everything that was written under a name of the root, or under any,
 * steps of a save too. Tries each change once; rejects, when all were tried, with the reason of the
 * first that the service does not take.
 */
export async function syncNow(deps: SyncDeps, name?: string): Promise<void> {
  const { files, folders, folderUploads, outbox, uploader } = deps
  await files.commitAll()
  await folders.commitAll()
  const intents = outbox.intents().filter((intent) => isNamed(intent, name))
  const underWay = new Set(intents.filter(({ id }) => uploader.isRunning(id)).map(({ id }) => id))
  const ids = new Set<IntentId>(await folderUploads.publish(name))
  for (const intent of outbox.intents()) {
    if (isNamed(intent, name) && (isToSend(intent) || isHeldFile(intent))) ids.add(intent.id)
  }
  const failures: unknown[] = []
  const send = async (id: IntentId): Promise<void> => {
    try {
      await attemptWhole(uploader, id)
      // That zip was packed before: what came into the folder since goes with the next.
      const next = underWay.has(id) ? await folderUploads.publishAgain(id) : undefined
      if (next !== undefined) await attemptWhole(uploader, next)
    } catch (error) {
      failures.push(error)
    }
  }
  const queue = new PQueue({ concurrency: AT_ONCE })
  await queue.addAll([...ids].map((id) => () => send(id)))
  if (failures.length > 0) throw failures[0]
}

/** A try that was under way already may have failed before the service came back: another follows it. */
async function attemptWhole(uploader: Uploader, id: IntentId): Promise<void> {
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
  return familyOf(encodeName(intent.name)) === familyOf(name)
}

function isHeldFile(intent: Intent): boolean {
  return intent.phase === 'held' && intent.kind === 'put' && intent.content.from !== 'folder'
}
