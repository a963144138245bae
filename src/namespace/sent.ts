import type { BagId } from '../domain/ids.ts'
import type { Intent, PutIntent } from '../intents/intent.ts'
import { isUnproven } from '../intents/rules.ts'
import type { BagRecord } from '../domain/record.ts'
import type { ListingIndex } from './listing-index.ts'

/**
 * Bags that look like what a put has sent, while it is not known whether that arrived: the put's
 * own entry stands for them. The uploader finds out, and then the bag is the put's or shows for
 * itself.
 */
export function findSentBags(index: ListingIndex, intents: readonly Intent[]): readonly BagId[] {
  return intents
    .filter(isUnproven)
    .flatMap((put) => recordsLike(index, put).map(({ bagId }) => bagId))
}

function recordsLike(index: ListingIndex, put: PutIntent): readonly BagRecord[] {
  return index
    .recordsOfUpload(put)
    .filter(
      ({ bagId, size, description }) =>
        bagId === put.bagId ||
        (size === put.content.length &&
          description === put.description &&
          put.namesakes?.includes(bagId) === false),
    )
}
