import type { BagId } from '../../domain/ids.ts'
import type { BagTime, Intent, PutIntent } from '../../domain/intent.ts'

/** A put that collects changes: its zip, if it was packed already, is of no use any more. */
export function collecting(put: PutIntent): PutIntent {
  const copy: { sentAtMs?: number; failure?: unknown; heldUntilMs?: number } & PutIntent = {
    ...put,
  }
  delete copy.sentAtMs
  delete copy.failure
  delete copy.heldUntilMs
  const { base, start } = put.changes ?? { start: 0, base: undefined }
  const bag = put.content.from === 'bag' ? put.content.bagId : base
  const changes = { start, ...(bag === undefined ? {} : { base: bag }) }
  const phase = put.phase === 'local' ? 'local' : 'held'
  return { ...copy, phase, content: { from: 'folder' }, isFolder: true, changes }
}

/** What is known of the zip that a round ends with. */
interface StoredZip {
  readonly bagId: BagId
  /** Operations that are in it. */
  readonly packed: number
  /** What it took the place of and is deleted. */
  readonly deleted: readonly BagTime[]
  /** Bags that were deleted before this time show in no listing any more. */
  readonly forgetBeforeMs: number
}

/** A put whose zip is stored and that goes on to collect changes, now to the new bag. */
export function nextRound(intent: Intent, zip: StoredZip): Intent {
  if (intent.kind !== 'put') return intent
  const { bagId, packed, forgetBeforeMs } = zip
  const copy: {
    bagId?: unknown
    sentAtMs?: unknown
    confirmedAtMs?: unknown
    replacedAreDeleted?: unknown
  } & PutIntent = { ...intent }
  delete copy.bagId
  delete copy.sentAtMs
  delete copy.confirmedAtMs
  delete copy.replacedAreDeleted
  // Equal content can have been given the id of a bag that was deleted before.
  const gone = zip.deleted.filter((each) => each.bagId !== bagId)
  const forgotten = new Set(
    gone.filter(({ atMs }) => atMs < forgetBeforeMs).map((each) => each.bagId),
  )
  return {
    ...copy,
    phase: 'held',
    content: { from: 'folder' },
    changes: { base: bagId, start: packed },
    // The listing may still show the old bags for a while: they stay hidden.
    replaces: [...new Set([...intent.replaces, bagId])].filter((each) => !forgotten.has(each)),
    deleted: gone.filter((each) => !forgotten.has(each.bagId)),
  }
}

/** A put whose bag the service has already: nothing in the folder is other than there. */
export function stored(intent: Intent, bagId: BagId, nowMs: number): Intent {
  if (intent.kind !== 'put') return intent
  const replaces = intent.replaces.filter((each) => each !== bagId)
  const deleted = (intent.deleted ?? []).filter((each) => each.bagId !== bagId)
  const start = intent.changes?.start ?? 0
  const changes = { base: bagId, start, packed: start }
  return { ...intent, phase: 'confirmed', bagId, confirmedAtMs: nowMs, replaces, deleted, changes }
}

/** A folder that nothing is in. */
export function localFolder(intent: Intent, start: number): Intent {
  if (intent.kind !== 'put') return intent
  return {
    ...intent,
    phase: 'local',
    content: { from: 'folder' },
    changes: { start },
    replaces: [],
    deleted: [],
  }
}
