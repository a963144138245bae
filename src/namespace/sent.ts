import type { BagId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { isUnproven, mayBeOf } from '../intents/rules.ts'
import type { ListingIndex } from './listing-index.ts'

/**
 * Bags that look like what a put has sent, while it is not known whether that arrived: the put's
 * own entry stands for them. The uploader finds out, and then the bag is the put's or shows for
 * itself.
 */
export function findSentBags(index: ListingIndex, intents: readonly Intent[]): readonly BagId[] {
  return intents
    .filter(isUnproven)
    .flatMap((put) => index.recordsOfUpload(put).filter((record) => mayBeOf(put, record)))
    .map(({ bagId }) => bagId)
}
