import { encodeName } from '../domain/names.ts'
import type { BagId } from '../domain/ids.ts'
import type { Intent, PutIntent } from '../domain/intent.ts'
import type { BagRecord } from '../domain/record.ts'
import type { Candidate } from './entry.ts'
import { familyOf } from './family.ts'
import { listedAs } from '../domain/folder-names.ts'
import type { ListingIndex } from './listing-index.ts'

/**
 * Bags that look like what a put has sent, while nobody knows whether it arrived: the put's own entry
 * stands for them. The uploader finds out, and then the bag is the put's or shows for itself.
 */
export function findSentBags(index: ListingIndex, intents: readonly Intent[]): readonly BagId[] {
  return intents.flatMap((intent) =>
    intent.kind === 'put' && intent.phase === 'waiting' && intent.sentAtMs !== undefined
      ? recordsLike(index, intent).map(({ bagId }) => bagId)
      : [],
  )
}

function recordsLike(index: ListingIndex, put: PutIntent): readonly BagRecord[] {
  // Its record may be listed as NAME.zip, and nothing tells yet that this is a folder.
  const names = put.isFolder === true ? [put.name, `${put.name}.zip`] : [put.name]
  const families = new Set(names.map((name) => familyOf(encodeName(name))))
  return [...families].flatMap((family) => likeIn(index.candidatesIn(family), put))
}

function likeIn(candidates: readonly Candidate[], put: PutIntent): readonly BagRecord[] {
  return candidates.flatMap((candidate) => {
    if (candidate.kind !== 'bag') return []
    const { record } = candidate
    const isLike =
      listedAs(record.name, put) !== undefined &&
      record.size === put.content.length &&
      record.description === put.description
    return isLike && put.namesakes?.includes(record.bagId) === false ? [record] : []
  })
}
