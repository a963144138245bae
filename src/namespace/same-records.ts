import type { BagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import { ShardedMap } from '../domain/sharded-map.ts'
import type { ListingIndex } from './listing-index.ts'

/**
 * Compares two listings, a small step at a time: true when they have the same records, in whatever order.
 * `index` is that of `old`.
 */
export function* compareRecords(
  old: readonly BagRecord[],
  index: ListingIndex,
  records: readonly BagRecord[],
): Generator<undefined, boolean> {
  if (old === records) return true
  if (old.length !== records.length) return false
  if (yield* haveSameOrder(old, records)) return true
  /** By bag: the records of the old listing that have no twin yet. */
  const unmatched = new ShardedMap<BagId, readonly BagRecord[]>()
  for (const record of records) {
    yield
    const { bagId } = record
    const left = unmatched.get(bagId) ?? index.recordsOf(bagId)
    const twin = left.find((one) => isSame(one, record))
    if (twin === undefined) return false
    unmatched.set(
      bagId,
      left.filter((one) => one !== twin),
    )
  }
  return true
}

function* haveSameOrder(
  old: readonly BagRecord[],
  records: readonly BagRecord[],
): Generator<undefined, boolean> {
  for (const [place, record] of records.entries()) {
    yield
    if (!isSame(old[place], record)) return false
  }
  return true
}

function isSame(one: BagRecord | undefined, other: BagRecord): boolean {
  return (
    one === other ||
    (one?.bagId === other.bagId &&
      one.name === other.name &&
      one.size === other.size &&
      one.uploadedAtMs === other.uploadedAtMs &&
      one.description === other.description)
  )
}
