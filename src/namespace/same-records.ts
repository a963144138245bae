import type { BagRecord } from '../domain/record.ts'
import type { ListingIndex } from './listing-index.ts'

/** True when two listings have the same records, in whatever order; `index` is that of `old`. */
export function sameRecords(
  old: readonly BagRecord[],
  index: ListingIndex,
  records: readonly BagRecord[],
): boolean {
  if (old === records) return true
  if (old.length !== records.length) return false
  if (records.every((record, place) => isSame(old[place], record))) return true
  const matched = new Set<BagRecord>()
  return records.every((record) => {
    const twin = index
      .recordsOf(record.bagId)
      .find((one) => !matched.has(one) && isSame(one, record))
    if (twin !== undefined) matched.add(twin)
    return twin !== undefined
  })
}

function isSame(one: BagRecord | undefined, other: BagRecord): boolean {
  return (
    one?.bagId === other.bagId &&
    one.name === other.name &&
    one.size === other.size &&
    one.uploadedAtMs === other.uploadedAtMs &&
    one.description === other.description
  )
}
