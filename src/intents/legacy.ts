import type { BagId, IntentId } from '../domain/ids.ts'
import type { BagTime, Intent, MovedTo, PutIntent } from './intent.ts'
import { deletedBags, isAllOf, isStored, orderOf, type Intents } from './rules.ts'

/** What a superseded put leaves to its successor. */
export interface Legacy {
  /** The put. */
  readonly put?: IntentId
  /** Bags to delete. */
  readonly bags: readonly BagId[]
  /** The one of them that it was given: whatever was deleted or uploaded under this id before is over. */
  readonly given?: BagId
  /** Puts that it superseded itself: they would come back without it. */
  readonly puts: readonly IntentId[]
  readonly deleted: readonly BagTime[]
  /** When bags that both take the place of were uploaded. */
  readonly uploaded: readonly BagTime[]
  /** When uploads of this machine that stored such bags were answered. */
  readonly ownUploads: readonly BagTime[]
  /** What has to be stored before they are deleted. */
  readonly after: readonly MovedTo[]
}

/** What is known beside the intents when a put is handed over. */
export interface KnownOfBags {
  /** True for a bag that the last listing has. */
  readonly isListed: (bagId: BagId) => boolean
  /** True while a listing may still show what the put has deleted. */
  readonly mayLag: boolean
  /** Puts that are about to be given a bag, which is not written down yet. */
  readonly receiving: readonly { readonly put: PutIntent; readonly bagId: BagId }[]
}

type All = Pick<Intents, 'intents' | 'get' | 'successorOf' | 'isSetAside'>

/** All that is left of a superseded put: bags to delete, its own included, and the puts that it superseded itself. */
export function legacyOf(all: All, put: PutIntent, successor: Intent, known: KnownOfBags): Legacy {
  const own = put.bagId === undefined ? [] : [put.bagId]
  const left = put.replacedAreDeleted === true ? stillToHide(all, put, known) : put.replaces
  return {
    put: put.id,
    bags: [...left, ...own].filter((bagId) => !isOfLater(all, put, bagId, known)),
    ...(put.bagId === undefined ? {} : { given: put.bagId }),
    puts: put.supersedes.filter((id) => all.get(id) !== undefined),
    // Equal content can have been given the id of a bag that was deleted before.
    deleted: (put.deleted ?? []).filter(({ bagId }) => bagId !== put.bagId),
    uploaded: withOwn(put.uploaded, put, put.uploadedAtMs).filter(
      (each) => each.bagId === put.bagId || !knowsUpload(successor, each),
    ),
    ownUploads: withOwn(put.ownUploads, put, put.answeredAtMs),
    after: (put.after ?? []).filter((moved) => !isStored(all, moved)),
  }
}

/** True when a successor has something to do for a legacy that it had not, or knows of a bag what is over. */
export function isNewTo(
  { replaces, deleted = [], uploaded: times = [] }: Intent,
  legacy: Legacy,
): boolean {
  const { bags, given, puts, uploaded, after } = legacy
  return (
    puts.length + uploaded.length + after.length > 0 ||
    !isAllOf(bags, replaces) ||
    deleted.some(({ bagId }) => bags.includes(bagId)) ||
    times.some(({ bagId }) => bagId === given)
  )
}

/**
 * True for a bag that content of later has been given, which was stored again with the same id. A put may be told of a
 * still later upload that it is to take away.
 */
function isOfLater(all: All, put: PutIntent, bagId: BagId, { receiving }: KnownOfBags): boolean {
  const having = putsOf(all).filter((other) => other.bagId === bagId)
  const expecting = receiving.filter((each) => each.bagId === bagId).map((each) => each.put)
  const known = (put.uploaded ?? []).filter((each) => each.bagId === bagId)
  const lastMs = Math.max(...known.map(({ atMs }) => atMs))
  const isBefore = ({ uploadedAtMs }: PutIntent): boolean =>
    uploadedAtMs !== undefined && uploadedAtMs <= lastMs
  return [...having, ...expecting].some(
    (other) => orderOf(other) > orderOf(put) && !isBefore(other),
  )
}

/** Bags that a put has deleted and only its successor will hide: from a listing, or an older put. */
function stillToHide(
  all: All,
  put: PutIntent,
  { isListed, mayLag }: KnownOfBags,
): readonly BagId[] {
  const areDeleted = deletedBags([put])
  return put.replaces.filter((bagId) => {
    if (!areDeleted.has(bagId)) return false
    const given = putsOf(all).filter((other) => other.bagId === bagId)
    if (given.some((other) => orderOf(other) >= orderOf(put))) return false
    return given.length > 0 || mayLag || isListed(bagId)
  })
}

function putsOf(all: All): readonly PutIntent[] {
  return all.intents().filter((intent) => intent.kind === 'put')
}

/** Times of bags that a put leaves, with that of its own. What is known of one of that id before is over. */
function withOwn(
  times: readonly BagTime[] | undefined,
  { bagId }: PutIntent,
  atMs: number | undefined,
): readonly BagTime[] {
  const before = (times ?? []).filter((each) => each.bagId !== bagId)
  return bagId === undefined || atMs === undefined ? before : [...before, { bagId, atMs }]
}

/** True when an intent knows of this upload of a bag, or of a later one. */
function knowsUpload({ uploaded = [] }: Intent, { bagId, atMs }: BagTime): boolean {
  return uploaded.some((each) => each.bagId === bagId && each.atMs >= atMs)
}
