import type { BagId } from '../domain/ids.ts'
import { OF_A_ROUND, OF_RESTORE, without } from './fields.ts'
import type { BagTime, FolderChanges, PutIntent } from './intent.ts'
import { confirmed, staged } from './transitions.ts'

/** What is known of the zip of a folder. */
export interface Zip {
  readonly length: number
  readonly sha256: string
  /** Operations of the journal that are in it. */
  readonly operations: number
  /** The folder's own times. */
  readonly mtimeMs: number
  readonly ctimeMs?: number | undefined
}

/** A folder's changes were packed into a zip. */
export function packed(put: PutIntent, zip: Zip): PutIntent {
  const { length, sha256, operations, mtimeMs, ctimeMs } = zip
  const changes = { start: 0, ...put.changes, packed: operations }
  return { ...staged(put, length, sha256), mtimeMs, ctimeMs, changes }
}

/** The zip of a folder is gone: its changes are to be packed again. */
export function unpacked(put: PutIntent): PutIntent {
  return { ...put, content: { from: 'folder' }, changes: begun(put.changes) }
}

/** A put that collects changes: its zip, if it was packed already, is of no use any more. */
export function collecting(put: PutIntent): PutIntent {
  const { base, start } = begun(put.changes)
  const bag = put.content.from === 'bag' ? put.content.bagId : base
  const changes = { start, ...(bag === undefined ? {} : { base: bag }) }
  const fresh = without(put, 'sentAtMs', 'failure', 'heldUntilMs')
  return { ...fresh, phase: 'held', content: { from: 'folder' }, isFolder: true, changes }
}

/** What is known of the zip that a round of a folder's changes ends with. */
export interface ZipAtService {
  readonly bagId: BagId
  /** Operations that are in it. */
  readonly packed: number
  /** What it took the place of and is deleted. */
  readonly deleted: readonly BagTime[]
  /** Bags that were deleted before this time show in no listing any more. */
  readonly forgetBeforeMs: number
}

/** A put whose zip is stored goes on to collect changes, now to the new bag. */
export function nextRound(put: PutIntent, zip: ZipAtService): PutIntent {
  const { bagId, forgetBeforeMs } = zip
  // Equal content can have been given the id of a bag that was deleted before.
  const gone = zip.deleted.filter((each) => each.bagId !== bagId)
  const isForgotten = ({ atMs }: BagTime): boolean => atMs < forgetBeforeMs
  const forgotten = new Set(gone.filter(isForgotten).map((each) => each.bagId))
  return {
    ...without(put, ...OF_A_ROUND, ...OF_RESTORE),
    phase: 'held',
    content: { from: 'folder' },
    changes: { base: bagId, start: zip.packed },
    // The listing may still show the old bags for a while: they stay hidden.
    replaces: [...new Set([...put.replaces, bagId])].filter((each) => !forgotten.has(each)),
    deleted: gone.filter((each) => !isForgotten(each)),
  }
}

/** The service has a folder's bag already: nothing in the folder is other than there. */
export function unchanged(put: PutIntent, bagId: BagId, nowMs: number): PutIntent {
  const replaces = put.replaces.filter((each) => each !== bagId)
  const gone = (put.deleted ?? []).filter((each) => each.bagId !== bagId)
  const { start } = begun(put.changes)
  const changes = { base: bagId, start, packed: start }
  return { ...confirmed(without(put, 'sentAtMs'), bagId, nowMs), replaces, deleted: gone, changes }
}

/**
 * A folder that nothing is in; `start` operations made it so. It stays on this machine (`local`), unless it goes on to
 * collect changes (`held`).
 */
export function emptied(
  put: PutIntent,
  { start, phase }: { readonly start: number; readonly phase: 'local' | 'held' },
): PutIntent {
  return {
    ...without(put, ...OF_RESTORE),
    phase,
    content: { from: 'folder' },
    changes: { start },
    replaces: [],
    deleted: [],
  }
}

/** The changes as they were before anything of them was packed. */
function begun(changes: FolderChanges | undefined): FolderChanges {
  const { base, start = 0 } = changes ?? {}
  return { start, ...(base === undefined ? {} : { base }) }
}
