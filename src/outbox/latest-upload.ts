import type { BagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import type { Intent } from '../intents/intent.ts'
import type { KnownListing } from './ports.ts'

/** When the latest of these records was uploaded; -Infinity without any. */
export function latestUpload(records: readonly Pick<BagRecord, 'uploadedAtMs'>[]): number {
  return Math.max(...records.map(({ uploadedAtMs }) => uploadedAtMs))
}

/** The same of a bag, by a listing and by what is known to the changes of here; -Infinity where nothing is. */
export function knownUpload(
  index: KnownListing['index'] | undefined,
  intents: readonly Intent[],
  bagId: BagId,
): number {
  const known = intents
    .flatMap(({ uploaded = [] }) => uploaded)
    .filter((each) => each.bagId === bagId)
    .map(({ atMs }) => atMs)
  return Math.max(latestUpload(index?.recordsOf(bagId) ?? []), ...known)
}
