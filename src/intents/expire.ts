import type { BagId, IntentId } from '../domain/ids.ts'
import { listedAs } from '../domain/folder-names.ts'
import type { BagRecord } from '../domain/record.ts'
import { firstMarks, lastMarks, toEffects, type Effect, type Marks } from './effects.ts'
import type { Intent, PutIntent } from './intent.ts'
import { isDone, isSuperseded, isUnproven, isWatched, mayBeOf, type Intents } from './rules.ts'

/** What expiring needs of a listing. */
export interface KnownBags {
  readonly index: { recordsOf(bagId: BagId): readonly BagRecord[] }
  /** When its request was begun. */
  readonly startedAtMs: number
}

/** A bag of which a listing says something else than the service confirmed, at this time. */
export interface DoubtfulBag {
  readonly bagId: BagId
  readonly confirmedAtMs: number
}

/** What is known beside a listing. */
export interface KnownBeside {
  /** Bags that the listing lacks, and that the service says it has no more. */
  readonly gone?: ReadonlySet<BagId>
  /** Bags that were deleted and are listed: the service says that it has them (again). */
  readonly back?: ReadonlySet<BagId>
  /** Intents that a file which is being written will supersede: they stay. */
  readonly kept?: ReadonlySet<IntentId>
}

/** How late a listing may be, in milliseconds. */
export interface Lag {
  readonly usualMs: number
  readonly longestMs: number
}

const NONE: ReadonlySet<never> = new Set<never>()

/**
 * The confirmed intents that a listing makes unnecessary. They have nothing left to do, and the
 * listing was asked for after the confirmation. It shows the bag of a put and none of what the
 * intent replaces. A bag in `gone` need not be shown, and one in `back` may be listed.
 * For the usual lag after the confirmation the next listing may be one from before, also where this one agrees.
 * The longest lag after the confirmation a listing that still says otherwise is believed: another machine
 * may have changed it. Intents that hold each other's effect in check go together. Otherwise those
 * that are left would bring back what was hidden. So callers give all intents, not some. Answers the oldest first.
 */
export function expireIntents(
  listing: KnownBags,
  intents: readonly Intent[],
  lag: Lag,
  { gone = NONE, back = NONE, kept = NONE }: KnownBeside = {},
): readonly Intent[] {
  const effects = toEffects(intents)
  const done = findDone(effects, listing).filter(({ id }) => !kept.has(id))
  if (done.length === 0) return []
  const last = lastMarks(effects)
  const expired = done.filter(
    (effect) =>
      listing.startedAtMs - effect.confirmedAtMs >= lag.longestMs ||
      (isReplacedOrShown(effect, listing, last, gone) &&
        isNoneListed(effect, listing, last, back) &&
        (isPast(effect, listing, lag) || isOfAnother(effect, gone, back))),
  )
  return withoutEntangled(listing, effects, new Set(expired))
}

/**
 * Bags of finished puts that should show and are not in a listing that was asked for after that.
 * The listing lags, or another machine removed them. Only the service knows.
 */
export function findMissing(
  listing: KnownBags,
  intents: readonly Intent[],
): readonly DoubtfulBag[] {
  return findDoubtful(listing, intents, (effect, last) =>
    effect.given === undefined || isReplacedOrShown(effect, listing, last, new Set())
      ? []
      : [effect.given],
  )
}

/**
 * Bags that finished intents deleted, and that are in a listing which was asked for after that. The
 * listing lags, or another machine stored the same content again and got the same id. Only the
 * service knows.
 */
export function findReturned(
  listing: KnownBags,
  intents: readonly Intent[],
): readonly DoubtfulBag[] {
  return findDoubtful(listing, intents, ({ hides, order }, last) =>
    [...hides].filter(
      (bagId) => isListed(listing, bagId) && !((last.given.get(bagId) ?? '') > order),
    ),
  )
}

/** A stored put whose bag a listing has under other names only. */
interface KeptOtherwise {
  readonly put: PutIntent
  readonly listedAs: string
}

/**
 * Those of puts that ended which a listing does not have under their name: the service has changed that, or keeps one bag
 * for equal content, under its first name.
 */
export function findKeptOtherwise(
  { index }: Pick<KnownBags, 'index'>,
  ended: readonly Intent[],
  all: Pick<Intents, 'successorOf'>,
): readonly KeptOtherwise[] {
  return ended.flatMap((put) => {
    if (put.kind !== 'put' || put.bagId === undefined || isSuperseded(all, put.id)) return []
    const names = index.recordsOf(put.bagId).map(({ name }) => name)
    const [first] = names
    const isNamed = names.some((name) => listedAs(name, put) !== undefined)
    return first === undefined || isNamed ? [] : [{ put, listedAs: first }]
  })
}

function findDoubtful(
  listing: KnownBags,
  intents: readonly Intent[],
  bagsOf: (effect: Effect, last: Marks) => readonly BagId[],
): readonly DoubtfulBag[] {
  const effects = toEffects(intents)
  const last = lastMarks(effects)
  return findDone(effects, listing).flatMap((effect) =>
    bagsOf(effect, last).map((bagId) => ({ bagId, confirmedAtMs: effect.confirmedAtMs })),
  )
}

/** With nothing left to do or to watch, and confirmed before the listing was asked for. */
function findDone(effects: readonly Effect[], { startedAtMs }: KnownBags): readonly Effect[] {
  return effects.filter(
    ({ intent, confirmedAtMs }) =>
      isDone(intent) && !isWatched(intent) && confirmedAtMs < startedAtMs,
  )
}

/** True when nothing is missing of what a put made. */
function isReplacedOrShown(
  { intent, order, given }: Effect,
  listing: KnownBags,
  last: Marks,
  gone: ReadonlySet<BagId>,
): boolean {
  if (intent.kind === 'delete') return true
  if (given === undefined) return false
  return isListed(listing, given) || gone.has(given) || (last.hides.get(given) ?? '') > order
}

/** True when nothing is listed of what an intent hides, but for what came back. */
function isNoneListed(
  { order, hides }: Effect,
  listing: KnownBags,
  last: Marks,
  back: ReadonlySet<BagId>,
): boolean {
  return [...hides].every(
    (bagId) =>
      !isListed(listing, bagId) || back.has(bagId) || (last.given.get(bagId) ?? '') > order,
  )
}

/** True when no listing that is late as usual can be from before an intent. */
function isPast({ confirmedAtMs }: Effect, { startedAtMs }: KnownBags, { usualMs }: Lag): boolean {
  return startedAtMs - confirmedAtMs >= usualMs
}

/** True when the service says that another machine has changed since what an intent did. */
function isOfAnother(
  { given, hides }: Effect,
  gone: ReadonlySet<BagId>,
  back: ReadonlySet<BagId>,
): boolean {
  return (given !== undefined && gone.has(given)) || [...hides].some((bagId) => back.has(bagId))
}

function isListed({ index }: KnownBags, bagId: BagId): boolean {
  return index.recordsOf(bagId).length > 0
}

/** Takes out of `expired`, until nothing changes, each intent that one that stays still needs. */
function withoutEntangled(
  listing: KnownBags,
  effects: readonly Effect[],
  expired: Set<Effect>,
): readonly Intent[] {
  for (;;) {
    const staying = effects.filter((effect) => !expired.has(effect))
    const needed = findNeeded(listing, expired, staying)
    if (needed.length === 0) return oldestFirst(expired)
    for (const effect of needed) expired.delete(effect)
  }
}

function oldestFirst(effects: Iterable<Effect>): readonly Intent[] {
  return [...effects]
    .sort((one, other) => (one.order < other.order ? -1 : 1))
    .map(({ intent }) => intent)
}

/** Those without which the staying intents would show or hide something that they must not. */
function findNeeded(
  { index }: KnownBags,
  expired: ReadonlySet<Effect>,
  staying: readonly Effect[],
): readonly Effect[] {
  const first = firstMarks(staying)
  const ids = new Set(staying.map(({ id }) => id))
  const through = new Set(staying.flatMap(({ throughOthers }) => [...throughOthers.keys()]))
  const isBefore = (order: IntentId | undefined, effect: Effect): boolean =>
    order !== undefined && order < effect.order
  const unproven = staying.map(({ intent }) => intent).filter(isUnproven)
  const { hides } = lastMarks([...staying, ...expired])
  // The bag that shows would be taken for what another put may have sent, and not show.
  const isMistaken = ({ given, order, intent }: Effect): boolean =>
    given !== undefined &&
    (hides.get(given) ?? '') < order &&
    index
      .recordsOf(given)
      .some((record) => unproven.some((put) => mayBeOf(put, record) && !isAlike(put, intent)))
  return [...expired].filter(
    (effect) =>
      isMistaken(effect) ||
      through.has(effect.id) ||
      effect.intent.supersedes.some((id) => ids.has(id)) ||
      [...effect.hides].some((bagId) => isBefore(first.given.get(bagId), effect)) ||
      (effect.given !== undefined && isBefore(first.hides.get(effect.given), effect)),
  )
}

/** Of equal content each stands for the other's bag. */
function isAlike({ content }: PutIntent, other: Intent): boolean {
  if (content.from !== 'staged' || other.kind !== 'put') return false
  return other.content.from === 'staged' && other.content.sha256 === content.sha256
}
