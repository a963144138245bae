import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent, MovedTo, PutIntent } from './intent.ts'

/** Intents, as the rules that concern several of them see them. */
export interface Intents {
  /** Oldest first. */
  intents(): readonly Intent[]
  get(id: IntentId): Intent | undefined
  /** Those of one name at the service, in no particular order. */
  named(name: string): readonly Intent[]
  /** The intent that takes the place of a put, if any. */
  successorOf(id: IntentId): Intent | undefined
}

/** True when nothing is left to do at the service for this intent. */
export function isDone(intent: Intent): boolean {
  if (intent.phase !== 'confirmed') return false
  return intent.kind === 'delete' || intent.replacedAreDeleted === true
}

/** True when this intent is sent by itself once its time has come. */
export function isToSend(intent: Intent): boolean {
  return intent.phase !== 'local' && intent.phase !== 'held' && !isDone(intent)
}

/** True when another try cannot help until the person does something. */
export function isForUser(intent: Intent): boolean {
  return intent.failure?.waitsForUser === true
}

/** When an intent may be sent, in milliseconds since the epoch; 0 is at once. */
export function dueAtMs(intent: Intent): number {
  return intent.phase === 'held' ? (intent.heldUntilMs ?? Infinity) : 0
}

/** True when the service may have this content already. */
export function wasSent(intent: Intent): boolean {
  return intent.kind === 'put' && intent.phase !== 'held' && intent.sentAtMs !== undefined
}

/** True once content that moved is stored at its new place, or is there no more. */
export function isStored(all: Pick<Intents, 'get' | 'successorOf'>, moved: MovedTo): boolean {
  const intent = latestOf(all, moved.id)
  if (intent?.kind !== 'put') return true
  const { operations } = moved
  if (operations === undefined || intent.id !== moved.id) return intent.phase === 'confirmed'
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
function awaitedBy({ after = [] }: Intent, all: Intents): readonly IntentId[] {
  return after
    .filter((moved) => !isStored(all, moved))
    .flatMap(({ id }) => latestOf(all, id)?.id ?? [])
}

/** True when content that moved away from an intent's place is stored at its new one. */
export function mayDelete(intent: Intent, all: Intents): boolean {
  return awaitedBy(intent, all).length === 0
}

export function isSuperseded(all: Pick<Intents, 'successorOf'>, id: IntentId): boolean {
  return all.successorOf(id) !== undefined
}

/**
 * Ids of the intents that must end before `intent` may be sent: those of the same name made earlier,
 * so that the service sees changes of a name in their order, and what it takes the place of while
 * that is on its way. What waits for the user, or for its successor, holds up no other; but a bag is not deleted
 * before what moved away from it is stored.
 */
export function blockersOf(
  intent: Intent,
  all: Intents,
  isRunning: (id: IntentId) => boolean,
): readonly IntentId[] {
  const isBlocking = (other: Intent): boolean =>
    other.id < intent.id &&
    isToSend(other) &&
    !isForUser(other) &&
    !intent.supersedes.includes(other.id) &&
    (!isSuperseded(all, other.id) || isRunning(other.id))
  return [
    ...all
      .named(intent.name)
      .filter(isBlocking)
      .map(({ id }) => id),
    ...intent.supersedes.filter(isRunning),
    ...(intent.kind === 'delete' || intent.phase === 'confirmed' ? awaitedBy(intent, all) : []),
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
export function isNeeded(all: Pick<Intents, 'intents' | 'successorOf'>, bagId: BagId): boolean {
  return all
    .intents()
    .some(
      (intent) =>
        intent.kind === 'put' &&
        (isSourceOf(intent, bagId) || isToReplace(intent, bagId)) &&
        !isSuperseded(all, intent.id),
    )
}

function isSourceOf({ content }: PutIntent, bagId: BagId): boolean {
  return content.from === 'bag' && content.bagId === bagId
}

function isToReplace({ phase, replaces }: PutIntent, bagId: BagId): boolean {
  return (phase === 'waiting' || phase === 'held') && replaces.includes(bagId)
}

/** Bags that an intent has to delete yet, those that a put still needs included. */
export function bagsToDelete(intent: Intent): readonly BagId[] {
  const own = intent.kind === 'put' ? intent.bagId : undefined
  const done = new Set(intent.deleted?.map(({ bagId }) => bagId))
  return intent.replaces.filter((bagId) => bagId !== own && !done.has(bagId))
}

export function isAllOf(some: readonly BagId[], all: readonly BagId[]): boolean {
  return some.every((bagId) => all.includes(bagId))
}
