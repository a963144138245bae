import { withChanges, type AttributeChanges } from '../domain/attributes.ts'
import type { BagId } from '../domain/ids.ts'
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
import type { Legacy } from './legacy.ts'
import { lostWhenRenamed } from './lost-uploads.ts'
import { isTaken } from './rules.ts'

/** Fields that an intent has for a while only. */
type Passing =
  | 'failure'
  | 'heldUntilMs'
  | 'sentAtMs'
  | 'bagId'
  | 'uploadedAtMs'
  | 'isAtRisk'
  | 'lookAtMs'
  | 'answeredAtMs'
  | 'confirmedAtMs'
  | 'replacedAreDeleted'
  | 'after'
  | 'disproofs'
  | 'ownUploads'
  | 'movesOn'
  | 'restores'
  | 'restoresSha256'

/** What tells of the zip that a folder's round ends with. */
const OF_A_ROUND = [
  'bagId',
  'uploadedAtMs',
  'isAtRisk',
  'lookAtMs',
  'sentAtMs',
  'answeredAtMs',
  'confirmedAtMs',
  'replacedAreDeleted',
  'ownUploads',
] as const satisfies readonly Passing[]

/** What tells of what a put brings back from the trash. */
const OF_RESTORE = ['restores', 'restoresSha256'] as const satisfies readonly Passing[]

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
  return without(intent, 'failure', 'disproofs')
}

/** A try failed. With `mayHaveArrived` the listing is asked before the next one. */
export function failed(
  intent: Intent,
  failure: IntentFailure,
  { mayHaveArrived }: { readonly mayHaveArrived: boolean },
): Intent {
  const isSent = mayHaveArrived || isTaken(intent)
  return { ...(isSent ? intent : without(intent, 'sentAtMs')), failure }
}

/** An upload begins: from now on its answer may be lost. A put that was held since its try began waits no more. */
export function sent(put: PutIntent, nowMs: number): PutIntent {
  return { ...publish(put), sentAtMs: nowMs }
}

/** A put gets its name now: it comes after what was `placed` before it, and these bags have the name already. */
export function named(put: PutIntent, at: Pick<PutIntent, 'placed' | 'namesakes'>): PutIntent {
  return { ...put, ...at }
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

/** The service answered an upload with this id; nothing has proven yet that there is such a bag. */
export function answered(
  put: PutIntent,
  { bagId, isAtRisk }: { readonly bagId: BagId; readonly isAtRisk: boolean },
  nowMs: number,
): PutIntent {
  const times = { answeredAtMs: nowMs, confirmedAtMs: nowMs }
  const bag = { bagId, ...(isAtRisk ? { isAtRisk } : {}) }
  const done = { ...put, phase: 'waiting' as const, ...bag, ...times }
  return without(done, 'failure', 'heldUntilMs')
}

/** No bag has the id that was answered: the put is to be sent again. */
export function unanswered(put: PutIntent): PutIntent {
  return without(
    put,
    ...(['bagId', 'uploadedAtMs', 'isAtRisk', 'lookAtMs'] as const),
    ...(['answeredAtMs', 'confirmedAtMs'] as const),
  )
}

/** As `unanswered`, where the bag of that id holds something else than was sent. */
export function disproven(put: PutIntent): PutIntent {
  return { ...unanswered(put), disproofs: (put.disproofs ?? 0) + 1 }
}

/** The service has the content, as this bag. */
export function confirmed(put: PutIntent, bagId: BagId, nowMs: number): PutIntent {
  const times = { answeredAtMs: put.answeredAtMs ?? nowMs, confirmedAtMs: nowMs }
  const done = { ...put, bagId, phase: 'confirmed' as const, ...times }
  return without(withoutFailure({ ...done, ...withUploads(done) }), 'isAtRisk')
}

/** The bag of a confirmed put had its id before, so a DELETE from then may take it. */
export function watched(put: PutIntent, lookAtMs: number): PutIntent {
  return put.phase === 'confirmed' ? { ...put, lookAtMs } : put
}

/** Nothing takes the bag of a put any more. */
export function unwatched(put: PutIntent): PutIntent {
  return without(put, 'lookAtMs')
}

/** The bag of a confirmed put was taken by a DELETE from before: it is stored once more. */
export function takenAway(put: PutIntent): PutIntent {
  const timesTaken = (put.timesTaken ?? 0) + 1
  return { ...without(unanswered(put), 'replacedAreDeleted'), phase: 'waiting', timesTaken }
}

/** The bag that a put was given is about to be deleted by a change that takes its place, and was uploaded then. */
export function seenUploaded(put: PutIntent, { bagId, atMs }: BagTime): PutIntent {
  return put.bagId === bagId ? { ...put, uploadedAtMs: atMs } : put
}

/** Nothing that a confirmed put takes the place of is left to delete; `gone` are those that are deleted. */
export function replacedDeleted(
  put: PutIntent,
  nowMs: number,
  gone: readonly BagTime[],
): PutIntent {
  const confirmedAtMs = put.replaces.length === 0 ? {} : { confirmedAtMs: nowMs }
  const done = { ...put, replacedAreDeleted: true, ...confirmedAtMs }
  return withoutFailure(withDeleted(done, gone))
}

/** Nothing of a delete is left to delete; `gone` are those that are deleted. */
export function deleted(
  intent: DeleteIntent,
  nowMs: number,
  gone: readonly BagTime[],
): DeleteIntent {
  const done = { ...intent, phase: 'confirmed' as const, confirmedAtMs: nowMs }
  return withoutFailure(withDeleted(done, gone))
}

/** Some of the bags that an intent takes the place of are deleted; what it has left meanwhile is none of them. */
export function withDeleted<Kind extends Intent>(intent: Kind, gone: readonly BagTime[]): Kind {
  const { deleted: before = [], replaces } = intent
  const isNew = ({ bagId }: BagTime): boolean =>
    replaces.includes(bagId) && before.every((each) => each.bagId !== bagId)
  const all = [...before, ...gone.filter(isNew)]
  return all.length === 0 ? intent : { ...intent, deleted: all }
}

/** The bag that an intent was to take the place of is gone: its id was given to other content since. */
export function withoutClaim<Kind extends Intent>(intent: Kind, bagId: BagId): Kind {
  const isOther = (each: BagTime): boolean => each.bagId !== bagId
  return {
    ...intent,
    replaces: intent.replaces.filter((each) => each !== bagId),
    ...(intent.deleted === undefined ? {} : { deleted: intent.deleted.filter(isOther) }),
    ...(intent.uploaded === undefined ? {} : { uploaded: intent.uploaded.filter(isOther) }),
  }
}

/**
 * It is known what became of a lost upload of a put: what was stored is a bag to delete, and was uploaded then. What the put had to do
 * with a bag of that id before is over.
 */
export function withLostFound(put: PutIntent, lost: PutIntent, found?: BagTime): PutIntent {
  const { lostUploads = [], ...rest } = found === undefined ? put : withoutClaim(put, found.bagId)
  const left = lostUploads.filter(
    ({ name, sentAtMs }) => name !== lost.name || sentAtMs !== lost.sentAtMs,
  )
  return {
    ...rest,
    ...(left.length === 0 ? {} : { lostUploads: left }),
    ...(found !== undefined && {
      replaces: [...rest.replaces, found.bagId],
      uploaded: [...(rest.uploaded ?? []), found],
    }),
  }
}

/** A successor takes over; a finished one has something left to do again. */
export function inheriting(successor: Intent, legacy: Legacy): Intent {
  const { replaces, supersedes } = joined(successor, {
    replaces: legacy.bags,
    supersedes: legacy.puts,
  })
  const more = {
    ...withFates(successor, legacy),
    ...withAfter(successor, legacy.after),
  }
  if (successor.kind === 'put') {
    const own = withOwnUploads(successor, legacy)
    return without({ ...successor, replaces, supersedes, ...more, ...own }, 'replacedAreDeleted')
  }
  const next = { ...successor, replaces, supersedes, ...more, ...withMoving(successor, legacy) }
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

/** What a put that waits was before it got another name, and the bag that had the new one. */
export interface BeforeRename {
  readonly put: PutIntent
  readonly replaced: BagId | undefined
}

/** True when a rename took the place of nothing but the put as it was and the bag that had the new name. */
export function isOnlyRenamed(renamed: PutIntent, { put, replaced }: BeforeRename): boolean {
  const bags = renamed.replaces.filter((each) => !put.replaces.includes(each))
  const puts = renamed.supersedes.filter((each) => !put.supersedes.includes(each))
  return puts.every((each) => each === put.id) && bags.every((each) => each === replaced)
}

/** A rename is taken back, unless the service took the put meanwhile: it has its old name, and takes the place of what it took before. */
export function renameTakenBack(latest: PutIntent, { put, replaced }: BeforeRename): PutIntent {
  if (latest.phase !== 'waiting' || isTaken(latest)) return latest
  const { name, phase, heldUntilMs, namesakes } = put
  const isOfRename = (bagId: BagId): boolean => bagId === replaced && !put.replaces.includes(bagId)
  const { uploaded } = latest
  return {
    ...latest,
    ...{ name, phase },
    replaces: latest.replaces.filter((each) => !isOfRename(each)),
    ...(uploaded && { uploaded: uploaded.filter(({ bagId }) => !isOfRename(bagId)) }),
    ...(heldUntilMs === undefined ? {} : { heldUntilMs }),
    ...(namesakes === undefined ? {} : { namesakes }),
  }
}

/** What is in a folder is packed anew under its new name; an empty one stays on this machine. */
export function renamedFolder(put: PutIntent, name: string, base: Replaced): PutIntent {
  const phase = put.phase === 'local' ? 'local' : 'waiting'
  return {
    ...collecting(put),
    ...lostWhenRenamed(put),
    name,
    phase,
    ...joined(put, base),
    ...withUploads(put, base.uploaded),
    ...withAfter(put, base.after),
  }
}

/**
 * What is known of the uploads of what an intent takes the place of, and more of it. Equal content can be given the
 * id of a bag that was there before: what is known of that upload is over.
 */
function withUploads(
  intent: Pick<PutIntent, 'uploaded' | 'bagId'>,
  more: readonly BagTime[] = [],
): Pick<Intent, 'uploaded'> {
  const { uploaded = [], bagId } = intent
  const all = [...uploaded, ...more]
  return all.length === 0 ? {} : { uploaded: all.filter((each) => each.bagId !== bagId) }
}

/** What is known of bags now: what a successor knew of those that came back since then is over. */
function withFates(successor: Intent, legacy: Legacy): Pick<Intent, 'deleted' | 'uploaded'> {
  const { bags, given, deleted: gone, uploaded: times } = legacy
  const areDeleted = new Set(gone.map(({ bagId }) => bagId))
  const left = new Set(bags.filter((bagId) => !areDeleted.has(bagId)))
  const { deleted: before = [], uploaded = [] } = successor
  const own = successor.kind === 'put' ? successor.bagId : undefined
  return {
    deleted: [...before.filter(({ bagId }) => !left.has(bagId) && !areDeleted.has(bagId)), ...gone],
    uploaded: [...uploaded.filter(({ bagId }) => bagId !== given), ...times].filter(
      ({ bagId }) => bagId !== own,
    ),
  }
}

/** What a put knows of uploads of this machine, and what it is told now, which is known better. */
function withOwnUploads(
  { ownUploads: before = [] }: PutIntent,
  { ownUploads: times }: Legacy,
): Pick<PutIntent, 'ownUploads'> {
  const isOther = ({ bagId }: BagTime): boolean => times.every((each) => each.bagId !== bagId)
  const all = [...before.filter(isOther), ...times]
  return all.length === 0 ? {} : { ownUploads: all }
}

/** Content that moved before it was stored has a bag now. */
function withMoving(
  { movesOn }: DeleteIntent,
  { put, given }: Legacy,
): Pick<DeleteIntent, 'movesOn'> {
  return movesOn !== undefined && movesOn === put && given !== undefined ? { movesOn: given } : {}
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

/** What moved away is no longer at its new place as it was, and may be stored nowhere else. */
export function toKeep(intent: Intent): Intent {
  return without(intent, 'movesOn')
}

/** What moved away is stored at its new place. */
export function movesStored<Kind extends Intent>(intent: Kind, stored: readonly MovedTo[]): Kind {
  const after = intent.after?.filter((each) => !stored.includes(each)) ?? []
  return after.length === 0 ? without(intent, 'after') : { ...intent, after }
}

export function described(put: PutIntent, description: string): PutIntent {
  return { ...put, description }
}

export function withAttributes(put: PutIntent, changes: AttributeChanges): PutIntent {
  return { ...put, ...withChanges(put, changes) }
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
