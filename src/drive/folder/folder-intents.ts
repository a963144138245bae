import type { BagId } from '../../domain/ids.ts'
import type { Intent, PutIntent } from '../../domain/intent.ts'

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

/** A put whose zip is stored and that goes on to collect changes, now to the new bag. */
export function nextRound(intent: Intent, bagId: BagId, packed: number): Intent {
  if (intent.kind !== 'put') return intent
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
  return {
    ...copy,
    phase: 'held',
    content: { from: 'folder' },
    changes: { base: bagId, start: packed },
    // The listing may still show the old bags for a while: they stay hidden.
    replaces: [...new Set([...intent.replaces, bagId])],
  }
}

/** A put whose bag the service has already: nothing in the folder is other than there. */
export function stored(intent: Intent, bagId: BagId, nowMs: number): Intent {
  if (intent.kind !== 'put') return intent
  const replaces = intent.replaces.filter((each) => each !== bagId)
  const start = intent.changes?.start ?? 0
  const changes = { base: bagId, start, packed: start }
  return { ...intent, phase: 'confirmed', bagId, confirmedAtMs: nowMs, replaces, changes }
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
  }
}
