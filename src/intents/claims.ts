import type { BagId } from '../domain/ids.ts'
import { joined, type Base } from './base.ts'
import { without } from './fields.ts'
import type { BagTime, DeleteIntent, Intent, MovedTo, PutIntent } from './intent.ts'
import type { Legacy } from './legacy.ts'

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
 * It is known what became of a lost upload of a put: what was stored is a bag to delete, and was uploaded then. What
 * the put had to do with a bag of that id before is over.
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

/**
 * What is known of the uploads of what an intent takes the place of, and more of it. Equal content can be given the
 * id of a bag that was there before: what is known of that upload is over.
 */
export function withUploads(
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
export function withAfter(
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

/** What moved away is lost at its new place, and is kept where it came from for as long as this intent is there. */
export function movesLost<Kind extends Intent>(intent: Kind, isTo: (to: MovedTo) => boolean): Kind {
  const { after = [] } = intent
  return { ...intent, after: after.map((to) => (isTo(to) ? { ...to, isLost: true } : to)) }
}

/** What moved away is stored at its new place. */
export function movesStored<Kind extends Intent>(intent: Kind, stored: readonly MovedTo[]): Kind {
  const after = intent.after?.filter((each) => !stored.includes(each)) ?? []
  return after.length === 0 ? without(intent, 'after') : { ...intent, after }
}
