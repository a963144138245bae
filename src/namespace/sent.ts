import type { BagId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { lostUploadsOf } from '../intents/lost-uploads.ts'
import { isUnproven, mayBeOf } from '../intents/rules.ts'
import type { ListingIndex } from './listing-index.ts'

/**
 * Bags that look like what a put has sent, while it is not known whether that arrived: the put's
 * own entry stands for them. The uploader finds out, and then the bag is the put's or shows for
 * itself.
 */
export function findSentBags(index: ListingIndex, intents: readonly Intent[]): readonly BagId[] {
  const lost = intents.flatMap((intent) => (intent.kind === 'put' ? lostUploadsOf(intent) : []))
  return [...intents.filter(isUnproven), ...lost]
    .flatMap((put) => index.recordsOfUpload(put).filter((record) => mayBeOf(put, record)))
    .map(({ bagId }) => bagId)
}
