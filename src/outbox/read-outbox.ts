import { join } from 'node:path'
import { fromFileSystem, isAbsent, isDriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { readIntentIn } from './kept-intents.ts'
import { CONTENT_FILE, findIntentDirs } from './layout.ts'

/** The content of an outbox on disk, read without opening it as a drive does. */
export interface OutboxOnDisk {
  /** Oldest first. */
  readonly intents: readonly Intent[]
  /** Directories of intents that could not be read, now or before. */
  readonly damaged: readonly string[]
  /** Where the staged content of an intent lies, if it has any. */
  contentPath(id: IntentId): string
}

/**
 * Reads the outbox in `dir` for a command that only looks: needs neither the lock nor room on the disk, and
 * changes nothing. Rejects `local-io`, and `unsupported` when a newer version wrote it.
 */
export async function readOutbox(dir: string): Promise<OutboxOnDisk> {
  const found = new Map<IntentId, { readonly intent: Intent; readonly path: string }>()
  const damaged: string[] = []
  try {
    for (const { path, isDamaged } of await findIntentDirs(dir)) {
      const intent = isDamaged ? 'damaged' : await readIntent(path)
      if (intent === 'damaged') damaged.push(path)
      else if (intent !== undefined) found.set(intent.id, { intent, path })
    }
  } catch (error) {
    throw fromFileSystem(error, 'The outbox cannot be read')
  }
  return {
    intents: [...found.values()].map(({ intent }) => intent).sort(byId),
    damaged,
    contentPath: (id) => join(found.get(id)?.path ?? dir, CONTENT_FILE),
  }
}

/** Undefined for a change that no program was promised: a draft, and a held delete. */
async function readIntent(path: string): Promise<Intent | 'damaged' | undefined> {
  try {
    const { intent } = await readIntentIn(path)
    return intent.kind === 'delete' && intent.phase === 'held' ? undefined : intent
  } catch (error) {
    if (isAbsent(error)) return undefined
    if (isDriveError(error, 'corrupt')) return 'damaged'
    throw error
  }
}

function byId(one: Intent, other: Intent): number {
  return one.id < other.id ? -1 : 1
}
