import { isDeepStrictEqual } from 'node:util'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import type { Intent, MovedTo, PutIntent } from './intent.ts'

/** Intents, as the rules that concern several of them see them. */
export interface Intents {
  /** Oldest first. */
  intents(): readonly Intent[]
  get(id: IntentId): Intent | undefined
  /** Those of one name at the service, oldest first. */
  named(name: string): readonly Intent[]
  /** Those that were given a bag, take its place, or get their content from it, oldest first. */
  ofBag(bagId: BagId): readonly Intent[]
  /** The intent that takes the place of a put, if any. */
  successorOf(id: IntentId): Intent | undefined
  /** True for an intent that was found damaged: what it promised is not known to be stored. */
  isSetAside(id: IntentId): boolean
}

/** What tells whether content that moved is stored. */
type KnownPuts = Pick<Intents, 'get' | 'successorOf' | 'isSetAside'>

/** A put that the service says it has, as a bag that was not seen yet. */
type AnsweredPut = PutIntent & { readonly bagId: BagId }

/** Compares as the times do at which intents got their names: which of two came first. */
export function orderOf({ id, placed = id }: Intent): IntentId {
  return placed
}

/** True while the id that an upload was answered with is not proven: its content must not leave this machine. */
export function isAnswered(intent: Intent): intent is AnsweredPut {
  return intent.kind === 'put' && intent.phase === 'waiting' && intent.bagId !== undefined
}

/** True when the service said that it has done it, proven or not. */
export function isTaken(intent: Intent): boolean {
  return intent.phase === 'confirmed' || isAnswered(intent)
}

/** True for new content that is to be sent, and that nothing has proven to be at the service. */
export function isUnstored({ phase, content }: PutIntent): boolean {
  return content.from !== 'bag' && (phase === 'waiting' || phase === 'held')
}

/** True when nothing is left to do at the service for this intent. */
export function isDone(intent: Intent): boolean {
  if (intent.phase !== 'confirmed') return false
  return intent.kind === 'delete' || intent.replacedAreDeleted === true
}

/** True for a folder that is as its base again: its bag may be older than what it takes the place of. */
export function isAsBase(intent: Intent): boolean {
  if (intent.kind !== 'put' || intent.bagId === undefined) return false
  return intent.changes?.base === intent.bagId && intent.sentAtMs === undefined
}

/** True for a put that the service has, and whose bag a DELETE from before may take: its content stays here. */
export function isWatched(intent: Intent): intent is PutIntent & { readonly lookAtMs: number } {
  return intent.kind === 'put' && intent.phase === 'confirmed' && intent.lookAtMs !== undefined
}

/** True for one of these that is to be looked at by now. */
export function isToLookAt(intent: Intent, nowMs: number): boolean {
  return isDone(intent) && isWatched(intent) && intent.lookAtMs <= nowMs
}

/** True when this intent is sent by itself once its time has come. */
export function isToSend(intent: Intent): boolean {
  return intent.phase !== 'local' && intent.phase !== 'held' && !isDone(intent)
}

/** True when another try cannot help until the person does something. */
export function isForUser(intent: Intent): boolean {
  return intent.failure?.waitsForUser === true
}

/** True for a put that the last try did not bring to the service. */
export function isRefused(intent: Intent | undefined): boolean {
  return intent?.kind === 'put' && intent.phase === 'waiting' && intent.failure !== undefined
}

/** True for new content that waits for a rename, as a step of a save. */
export function isHeldFile(intent: Intent): boolean {
  return intent.phase === 'held' && intent.kind === 'put' && intent.content.from !== 'folder'
}

/** True for a change that is at the service but for bags that are to be deleted there. */
export function isLeftToDelete(all: Pick<Intents, 'successorOf'>, intent: Intent): boolean {
  return hasOnlyDeletes(intent) && isToSend(intent) && !isSuperseded(all, intent.id)
}

/** True when all that an intent can have left to do is to delete bags. */
function hasOnlyDeletes({ kind, phase }: Intent): boolean {
  return kind === 'delete' || phase === 'confirmed'
}

/** When there is something to do for an intent, in milliseconds since the epoch; 0 is at once. */
export function dueAtMs(intent: Intent): number {
  if (intent.phase === 'held') return intent.heldUntilMs ?? Infinity
  return isDone(intent) && isWatched(intent) ? intent.lookAtMs : 0
}

/** True when the service may have this content already. */
export function wasSent(intent: Intent): boolean {
  if (intent.kind === 'delete') return false
  const isSent = intent.phase !== 'held' && intent.sentAtMs !== undefined
  return isSent || hasLostUploads(intent)
}

/** True for a put that the service may have under a name that it has no more. */
export function hasLostUploads({ lostUploads = [] }: PutIntent): boolean {
  return lostUploads.length > 0
}

/** True while the service may have the content of a put and nothing has proven that. */
export function isUnproven(intent: Intent): intent is PutIntent {
  return intent.kind === 'put' && intent.phase === 'waiting' && intent.sentAtMs !== undefined
}

/** True for a record that may be what an unproven put has sent, unless it has another name than was sent. */
export function mayBeOf(put: PutIntent, { bagId, size, description }: BagRecord): boolean {
  if (bagId === put.bagId) return true
  if (size !== put.content.length || description !== put.description) return false
  return put.namesakes?.includes(bagId) === false
}

/** True once content that moved is stored at its new place, and where it went on from there, or is there no more. */
export function isStored(all: KnownPuts, moved: MovedTo): boolean {
  return unstoredOf(all, moved, new Set()).length === 0
}

/** Places of content that moved where it is not stored yet. Content that came back to where it was is followed once. */
function unstoredOf(all: KnownPuts, moved: MovedTo, followed: Set<IntentId>): readonly MovedTo[] {
  if (moved.isLost === true) return [moved]
  const intent = latestOf(all, moved.id)
  if (intent === undefined) return all.isSetAside(moved.id) ? [moved] : []
  if (!isStoredThere(intent, moved)) return [moved]
  if (followed.has(intent.id)) return []
  followed.add(intent.id)
  return allUnstoredOf(all, intent, followed)
}

/** The same for all that moved away from an intent's place. */
function allUnstoredOf(
  all: KnownPuts,
  { after = [] }: Intent,
  followed: Set<IntentId>,
): readonly MovedTo[] {
  return after.flatMap((moved) => unstoredOf(all, moved, followed))
}

/** What is there on this machine only is never sent: a name that is not for the service, or a folder that nothing is left in. */
function isStoredThere(intent: Intent, { id, operations }: MovedTo): boolean {
  if (intent.kind === 'delete') return true
  if (operations === undefined || intent.id !== id) {
    return intent.phase === 'confirmed' || intent.phase === 'local'
  }
  const { start = 0, packed = start } = intent.changes ?? {}
  return start >= operations || (intent.phase === 'confirmed' && packed >= operations)
}

/** The intent that stands for a put now. */
function latestOf(all: Pick<Intents, 'get' | 'successorOf'>, id: IntentId): Intent | undefined {
  let latest = all.get(id)
  for (let next = all.successorOf(id); next !== undefined; next = all.successorOf(next.id)) {
    latest = next
  }
  return latest
}

/** What has to be stored before an intent may delete a bag. */
function awaitedBy(intent: Intent, all: KnownPuts): readonly IntentId[] {
  return allUnstoredOf(all, intent, new Set()).flatMap(({ id }) => latestOf(all, id)?.id ?? [])
}

/** True when content that moved away from an intent's place is stored at its new one. */
export function mayDelete(intent: Intent, all: KnownPuts): boolean {
  return allUnstoredOf(all, intent, new Set()).length === 0
}

/** Intents that may delete a bag only once what moved to the place of a put is stored. */
export function awaiting(
  all: Pick<Intents, 'intents' | 'get' | 'successorOf'>,
  put: IntentId,
): readonly Intent[] {
  return all.intents().filter(({ after = [] }) => after.some((to) => isMovedTo(all, to, put)))
}

/** True for content that moved to a put, or to one that it took the place of. */
export function isMovedTo(
  all: Pick<Intents, 'get' | 'successorOf'>,
  { id }: MovedTo,
  put: IntentId,
): boolean {
  return latestOf(all, id)?.id === put
}

/** True when content that moved away from an intent's place is in an intent that was found damaged. */
export function isLostOnItsWay(intent: Intent, all: KnownPuts): boolean {
  const unstored = allUnstoredOf(all, intent, new Set())
  return unstored.some((moved) => moved.isLost === true || latestOf(all, moved.id) === undefined)
}

/** True when something moved to a put by a later operation of its journal than these. */
export function hasMovedLater(
  all: Pick<Intents, 'intents'>,
  put: IntentId,
  operations: number,
): boolean {
  const isLater = (moved: MovedTo): boolean =>
    moved.id === put && moved.isLost !== true && (moved.operations ?? 0) > operations
  return all.intents().some(({ after = [] }) => after.some(isLater))
}

export function isSuperseded(all: Pick<Intents, 'successorOf'>, id: IntentId): boolean {
  return all.successorOf(id) !== undefined
}

/**
 * An intent that takes the place neither of itself nor of what stands for it already: each of the two would wait for the
 * other for ever, and what follows successors would not end.
 */
export function withoutCycle<Kind extends Intent>(
  all: Pick<Intents, 'successorOf'>,
  intent: Kind,
): Kind {
  const standing = new Set<IntentId>()
  for (let id: IntentId | undefined = intent.id; id !== undefined; id = all.successorOf(id)?.id) {
    standing.add(id)
  }
  const supersedes = intent.supersedes.filter((id) => !standing.has(id))
  return supersedes.length === intent.supersedes.length ? intent : { ...intent, supersedes }
}

/**
 * Ids of the intents that must end before `intent` may be sent. These are earlier ones of the same
 * name, so that the service sees changes of a name in their order. What `intent` takes the place of
 * counts too, while that is on its way. An intent that waits for the user, for its successor, or for what moved away
 * from it to be stored, holds up no other: what it waits for may wait for that. But a bag is not deleted before what
 * moved away from it is stored.
 */
export function blockersOf(
  intent: Intent,
  all: Intents,
  isRunning: (id: IntentId) => boolean,
): readonly IntentId[] {
  const isBlocking = (other: Intent): boolean =>
    orderOf(other) < orderOf(intent) &&
    isToSend(other) &&
    !isForUser(other) &&
    !intent.supersedes.includes(other.id) &&
    (!hasOnlyDeletes(other) || mayDelete(other, all)) &&
    (!isSuperseded(all, other.id) || isRunning(other.id))
  return [
    ...all
      .named(intent.name)
      .filter(isBlocking)
      .map(({ id }) => id),
    ...intent.supersedes.filter(isRunning),
    ...(hasOnlyDeletes(intent) ? awaitedBy(intent, all) : []),
  ]
}

/** Puts that an intent takes the place of, and that are still there. */
export function supersededBy(all: Pick<Intents, 'get'>, id: IntentId): readonly PutIntent[] {
  const older = all.get(id)?.supersedes ?? []
  return older.flatMap((each) => {
    const put = all.get(each)
    return put?.kind === 'put' ? [put] : []
  })
}

/**
 * An intent and the unconfirmed ones that it took the place of, which would come back without it. Successors are
 * last: a kill while they are forgotten in this order leaves one that still hides what is left.
 */
export function withSuperseded(all: Pick<Intents, 'get'>, id: IntentId): readonly Intent[] {
  const intent = all.get(id)
  if (intent === undefined) return []
  const older = intent.supersedes.filter((each) => all.get(each)?.phase !== 'confirmed')
  return [...older.flatMap((each) => withSuperseded(all, each)), intent]
}

/**
 * True while a put needs a bag: it gets its content from there, or is to take its place and is not confirmed.
 * Such a put deletes the bag itself, once the new content is confirmed.
 */
export function isNeeded(
  all: Pick<Intents, 'get' | 'ofBag' | 'successorOf'>,
  bagId: BagId,
): boolean {
  return awaitedFor(all, bagId).length > 0
}

/** The puts that need a bag, see `isNeeded`; what stands for a superseded one in its place. */
export function awaitedFor(
  all: Pick<Intents, 'get' | 'ofBag' | 'successorOf'>,
  bagId: BagId,
): readonly PutIntent[] {
  const puts = all.ofBag(bagId).flatMap((intent) => {
    if (intent.kind !== 'put') return []
    if (!isSuperseded(all, intent.id)) return isNeedOf(intent, bagId) ? [intent] : []
    const latest = latestOf(all, intent.id)
    const isLeft = latest?.kind === 'put' && isLeftToSuccessor(all, intent, bagId)
    return isLeft ? [latest] : []
  })
  return [...new Set(puts)]
}

function isNeedOf(put: PutIntent, bagId: BagId): boolean {
  return sourceOf(put) === bagId || (isUnconfirmed(put) && put.replaces.includes(bagId))
}

/**
 * True when a put that gives a bag another name can be forgotten, and the bag is as it was under `name`: the put takes
 * the place of nothing else, and no other change concerns the bag or the name. Another put of the name may be given the
 * id of the bag, and what takes the place of that put deletes it.
 */
export function isOnlyChangeOf(
  all: Pick<Intents, 'ofBag' | 'named'>,
  { id, replaces, supersedes }: PutIntent,
  { bagId, name }: { readonly bagId: BagId; readonly name: string },
): boolean {
  const isAlone = (others: readonly Intent[]): boolean => others.every((other) => other.id === id)
  const claims = all.ofBag(bagId).filter((intent) => intent.replaces.includes(bagId))
  return (
    isAllOf(replaces, [bagId]) &&
    supersedes.length === 0 &&
    isAlone(claims) &&
    isAlone(all.named(name))
  )
}

/** The bag that a put gets its content from, if any. */
export function sourceOf({ content }: PutIntent): BagId | undefined {
  return content.from === 'bag' ? content.bagId : undefined
}

function isUnconfirmed(intent: Intent | undefined): boolean {
  return intent?.kind === 'put' && (intent.phase === 'waiting' || intent.phase === 'held')
}

/** True when the put that stands for a superseded one now is to take the place of a bag, and is not confirmed. */
function isLeftToSuccessor(
  all: Pick<Intents, 'get' | 'successorOf'>,
  put: PutIntent,
  bagId: BagId,
): boolean {
  const isDue = put.replacedAreDeleted !== true && bagsToDelete(put).includes(bagId)
  return (isDue || put.bagId === bagId) && isUnconfirmed(latestOf(all, put.id))
}

/**
 * Intents that meant a bag which was there before a put was given its id. What takes the place of the put means the
 * put's own.
 */
export function claimsOfBefore(
  all: Pick<Intents, 'ofBag' | 'successorOf'>,
  put: PutIntent,
  given: BagId,
): readonly Intent[] {
  const own = new Set<IntentId>()
  for (let id: IntentId | undefined = put.id; id !== undefined; id = all.successorOf(id)?.id) {
    own.add(id)
  }
  return all.ofBag(given).filter(({ id, replaces }) => !own.has(id) && replaces.includes(given))
}

/** Bags that an intent has to delete yet, those that a put still needs included. */
export function bagsToDelete(intent: Intent): readonly BagId[] {
  const own = intent.kind === 'put' ? intent.bagId : undefined
  const done = new Set(intent.deleted?.map(({ bagId }) => bagId))
  return intent.replaces.filter((bagId) => bagId !== own && !done.has(bagId))
}

/** Bags that these intents have deleted; equal content can be given the id of one again. */
export function deletedBags(intents: readonly Intent[]): ReadonlySet<BagId> {
  return new Set(intents.flatMap(({ deleted = [] }) => deleted.map(({ bagId }) => bagId)))
}

export function isAllOf(some: readonly BagId[], all: readonly BagId[]): boolean {
  return some.every((bagId) => all.includes(bagId))
}

/**
 * A change of an intent that takes the place of no other, and that no other concerns. That is a file's put
 * that replaces nothing, or a delete: one that hides what it hid before, or a new one that is the last of its bags.
 */
export function changeOfItsOwn(
  all: Pick<Intents, 'named' | 'ofBag' | 'successorOf'>,
  before: Intent | undefined,
  after: Intent | undefined,
): { readonly before: Intent | undefined; readonly after: Intent } | undefined {
  if (after === undefined || all.successorOf(after.id) !== undefined) return undefined
  if (isPlainDelete(after)) {
    const isOwn = before === undefined ? isLastOfBags(all, after) : hidesSame(before, after)
    return isOwn ? { before, after } : undefined
  }
  if (!isPlainPut(after)) return undefined
  if (before !== undefined && (!isPlainPut(before) || before.name !== after.name)) return undefined
  return all.named(after.name).length === 1 ? { before, after } : undefined
}

function isPlainDelete(intent: Intent): boolean {
  return intent.kind === 'delete' && intent.supersedes.length === 0
}

/** True when no other intent that has to do with its bags came later. */
function isLastOfBags(all: Pick<Intents, 'ofBag'>, intent: Intent): boolean {
  const others = intent.replaces.flatMap((bagId) => all.ofBag(bagId))
  return others.every((each) => each.id === intent.id || orderOf(each) < orderOf(intent))
}

function hidesSame(before: Intent, after: Intent): boolean {
  if (!isPlainDelete(before)) return false
  return orderOf(before) === orderOf(after) && isDeepStrictEqual(before.replaces, after.replaces)
}

function isPlainPut(intent: Intent | undefined): intent is PutIntent {
  if (intent?.kind !== 'put' || intent.isFolder === true) return false
  return intent.replaces.length + intent.supersedes.length === 0
}
