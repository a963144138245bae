import type { BagId, IntentId } from '../domain/ids.ts'
import type {
  BagTime,
  DeleteIntent,
  FolderChanges,
  Intent,
  IntentFailure,
  MovedTo,
  PutIntent,
} from './intent.ts'
import { joined, type Base } from './base.ts'

/** Fields that an intent has for a while only. */
type Passing =
  | 'failure'
  | 'heldUntilMs'
  | 'sentAtMs'
  | 'bagId'
  | 'confirmedAtMs'
  | 'replacedAreDeleted'
  | 'after'

function without<Kind extends Intent>(intent: Kind, ...fields: readonly Passing[]): Kind {
  const copy = { ...intent }
  for (const field of fields) Reflect.deleteProperty(copy, field)
  return copy
}

/** A change of puts as one of all intents: a delete stays as it is. */
export function ofPut(change: (put: PutIntent) => PutIntent): (intent: Intent) => Intent {
  return (intent) => (intent.kind === 'put' ? change(intent) : intent)
}

/** A held change becomes one to send. */
export function publish<Kind extends Intent>(intent: Kind): Kind {
  return intent.phase === 'held' ? without({ ...intent, phase: 'waiting' }, 'heldUntilMs') : intent
}

/** As if it had never been tried. */
export function withoutFailure<Kind extends Intent>(intent: Kind): Kind {
  return without(intent, 'failure')
}

/** A try failed. With `mayHaveArrived` the listing is asked before the next one. */
export function failed(
  intent: Intent,
  failure: IntentFailure,
  { mayHaveArrived }: { readonly mayHaveArrived: boolean },
): Intent {
  const isSent = mayHaveArrived || intent.phase === 'confirmed'
  return { ...(isSent ? intent : without(intent, 'sentAtMs')), failure }
}

/** An upload begins: from now on its answer may be lost. */
export function sent(put: PutIntent, nowMs: number): PutIntent {
  return { ...put, sentAtMs: nowMs }
}

/** Content of a bag was fetched to the outbox. */
export function staged(put: PutIntent, length: number, sha256: string): PutIntent {
  return { ...put, content: { from: 'staged', length, sha256 } }
}

/** What is known of the zip of a folder. */
export interface Zip {
  readonly length: number
  readonly sha256: string
  /** Operations of the journal that are in it. */
  readonly operations: number
  readonly mtimeMs: number
}

/** A folder's changes were packed into a zip. */
export function packed(put: PutIntent, { length, sha256, operations, mtimeMs }: Zip): PutIntent {
  const changes = { start: 0, ...put.changes, packed: operations }
  return { ...staged(put, length, sha256), mtimeMs, changes }
}

/** The zip of a folder is gone: its changes are to be packed again. */
export function unpacked(put: PutIntent): PutIntent {
  return { ...put, content: { from: 'folder' }, changes: begun(put.changes) }
}

/** The service has the content, as this bag. */
export function confirmed(put: PutIntent, bagId: BagId, nowMs: number): PutIntent {
  return withoutFailure({ ...put, bagId, phase: 'confirmed', confirmedAtMs: nowMs })
}

/** Every bag that a confirmed put takes the place of is deleted. */
export function replacedDeleted(put: PutIntent, nowMs: number): PutIntent {
  const confirmedAtMs = put.replaces.length === 0 ? {} : { confirmedAtMs: nowMs }
  return withoutFailure({ ...put, replacedAreDeleted: true, ...confirmedAtMs })
}

/** Every bag of a delete is deleted. */
export function deleted(intent: DeleteIntent, nowMs: number): DeleteIntent {
  return withoutFailure({ ...intent, phase: 'confirmed', confirmedAtMs: nowMs })
}

/** What a superseded put leaves to its successor. */
export interface Legacy {
  /** Bags to delete. */
  readonly bags: readonly BagId[]
  /** Puts that it superseded itself: they would come back without it. */
  readonly puts: readonly IntentId[]
  readonly deleted: readonly BagTime[]
  /** When bags that both take the place of were uploaded. */
  readonly uploaded: readonly BagTime[]
  /** What has to be stored before they are deleted. */
  readonly after: readonly MovedTo[]
}

/** A successor takes over; a finished one has something left to do again. */
export function inheriting(successor: Intent, legacy: Legacy): Intent {
  const { replaces, supersedes } = joined(successor, {
    replaces: legacy.bags,
    supersedes: legacy.puts,
  })
  const gone = [...(successor.deleted ?? []), ...legacy.deleted]
  const more = {
    ...(legacy.deleted.length > 0 ? { deleted: gone } : {}),
    ...withUploads(successor, legacy.uploaded),
    ...withAfter(successor, legacy.after),
  }
  if (successor.kind === 'put') {
    return without({ ...successor, replaces, supersedes, ...more }, 'replacedAreDeleted')
  }
  const next = { ...successor, replaces, supersedes, ...more }
  if (next.phase !== 'confirmed') return next
  return without({ ...next, phase: 'waiting' as const }, 'confirmedAtMs')
}

/** What a put takes the place of, and when those bags were uploaded. */
export interface Replaced extends Base {
  readonly uploaded?: readonly BagTime[]
  readonly after?: readonly MovedTo[]
}

/** A put that was not sent yet gets another name, and takes the place of more. */
export function renamed(
  put: PutIntent,
  name: string,
  phase: Pick<PutIntent, 'phase' | 'heldUntilMs' | 'sentAtMs'>,
  base: Replaced,
): PutIntent {
  const fresh = without(put, 'heldUntilMs', 'sentAtMs', 'failure')
  return {
    ...fresh,
    name,
    ...phase,
    ...joined(put, base),
    ...withUploads(put, base.uploaded),
    ...withAfter(put, base.after),
  }
}

/** What is in a folder is packed anew under its new name; an empty one stays on this machine. */
export function renamedFolder(put: PutIntent, name: string, base: Replaced): PutIntent {
  const phase = put.phase === 'local' ? 'local' : 'waiting'
  return {
    ...collecting(put),
    name,
    phase,
    ...joined(put, base),
    ...withUploads(put, base.uploaded),
    ...withAfter(put, base.after),
  }
}

/** What is known of the uploads of what an intent takes the place of, and more of it. */
function withUploads(
  { uploaded = [] }: Pick<Intent, 'uploaded'>,
  more: readonly BagTime[] = [],
): Pick<Intent, 'uploaded'> {
  return more.length === 0 ? {} : { uploaded: [...uploaded, ...more] }
}

/** What has to be stored before an intent deletes a bag, and more of it. */
function withAfter(
  { after = [] }: Pick<Intent, 'after'>,
  more: readonly MovedTo[] = [],
): Pick<Intent, 'after'> {
  return more.length === 0 ? {} : { after: [...after, ...more] }
}

/** Something moved away from what an intent takes the place of. */
export function movedAway<Kind extends Intent>(intent: Kind, to: MovedTo): Kind {
  return { ...intent, ...withAfter(intent, [to]) }
}

/** What moved away is stored at its new place. */
export function movesStored<Kind extends Intent>(intent: Kind, stored: readonly MovedTo[]): Kind {
  const after = intent.after?.filter((each) => !stored.includes(each)) ?? []
  return after.length === 0 ? without(intent, 'after') : { ...intent, after }
}

export function described(put: PutIntent, description: string): PutIntent {
  return { ...put, description }
}

export function withAttributes(
  put: PutIntent,
  { mode = put.mode, mtimeMs = put.mtimeMs }: { readonly mode?: number; readonly mtimeMs?: number },
): PutIntent {
  return { ...put, mode, mtimeMs }
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
export interface StoredZip {
  readonly bagId: BagId
  /** Operations that are in it. */
  readonly packed: number
  /** What it took the place of and is deleted. */
  readonly deleted: readonly BagTime[]
  /** Bags that were deleted before this time show in no listing any more. */
  readonly forgetBeforeMs: number
}

/** A put whose zip is stored goes on to collect changes, now to the new bag. */
export function nextRound(put: PutIntent, zip: StoredZip): PutIntent {
  const { bagId, forgetBeforeMs } = zip
  // Equal content can have been given the id of a bag that was deleted before.
  const gone = zip.deleted.filter((each) => each.bagId !== bagId)
  const isForgotten = ({ atMs }: BagTime): boolean => atMs < forgetBeforeMs
  const forgotten = new Set(gone.filter(isForgotten).map((each) => each.bagId))
  return {
    ...without(put, 'bagId', 'sentAtMs', 'confirmedAtMs', 'replacedAreDeleted'),
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
  return { ...confirmed(put, bagId, nowMs), replaces, deleted: gone, changes }
}

/** A folder that nothing is in stays on this machine; `start` operations made it so. */
export function emptied(put: PutIntent, start: number): PutIntent {
  return {
    ...put,
    phase: 'local',
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
