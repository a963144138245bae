import type { BagId } from '../domain/ids.ts'
import { joined, type Base } from './base.ts'
import type { BagTime, DeleteIntent, Intent, PutIntent } from './intent.ts'
import type { Replaced } from './claims.ts'

/**
 * A put and a delete of one name belong together. A delete that was not sent yet becomes part of a
 * put which comes after it. Left beside the put, it would take the old content away before the new
 * content is confirmed.
 */
export function isUnsentDelete(intent: Intent): intent is DeleteIntent {
  return intent.kind === 'delete' && (intent.phase === 'waiting' || intent.phase === 'held')
}

/**
 * What a put takes the place of when unsent deletes of its name become part of it. `uploadsOf` tells what the
 * listing says now; of the bags of a delete, what the delete knew counts.
 */
export function withDeletes(
  base: Base,
  deletes: readonly DeleteIntent[],
  uploadsOf: (bagIds: readonly BagId[]) => readonly BagTime[],
): Replaced {
  const { replaces, supersedes } = deletes.reduce<Base>(joined, base)
  const taken = new Set(deletes.flatMap((each) => each.replaces))
  const uploaded = [
    ...deletes.flatMap((each) => each.uploaded ?? []),
    ...uploadsOf(replaces.filter((bagId) => !taken.has(bagId))),
  ]
  const after = deletes.flatMap((each) => each.after ?? [])
  return {
    replaces,
    supersedes,
    ...(uploaded.length === 0 ? {} : { uploaded }),
    ...(after.length === 0 ? {} : { after }),
  }
}

/** True when a put does all that a delete was to do, so that the delete can be forgotten. */
export function covers(put: PutIntent, { replaces, supersedes }: DeleteIntent): boolean {
  return (
    replaces.every((bagId) => put.replaces.includes(bagId)) &&
    supersedes.every((id) => put.supersedes.includes(id))
  )
}
