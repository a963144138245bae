import type { AttributeChanges } from './attributes.ts'
import type { BagId } from './ids.ts'

/** One record of the listing (docs/SERVICE.md), as the drive uses it. */
export interface BagRecord {
  readonly bagId: BagId
  /** `filename`, unchanged; may hold anything, see domain/names.ts. */
  readonly name: string
  /** `size` in bytes as the listing says, or undefined when it is negative, missing or absurd. */
  readonly size: number | undefined
  /** `uploaded_at` in milliseconds since the epoch; 0 when it cannot be used. */
  readonly uploadedAtMs: number
  readonly description: string
}

/** The account of the token (docs/SERVICE.md). Sizes are in bytes. */
export interface Account {
  readonly uid: string
  readonly spaceLeft: number
  readonly capacity: number
}

/**
 * What we learned of a bag and its record does not say. A bag is immutable, so `kind`, `length` and `sha256` hold for ever;
 * the attributes are those that were set on this machine.
 */
export interface BagFacts extends AttributeChanges {
  readonly kind?: 'file' | 'folder'
  /** True length of the download in bytes; undefined again where what came with it was not the bag's content. */
  readonly length?: number | undefined
  /** True when the listing told `length` too, or all of the content came twice the same. */
  readonly isCertain?: boolean
  /** SHA-256 of the download, 64 hex digits. */
  readonly sha256?: string
  /** What the content takes of the local disk, in bytes, as it was written here with holes. It may not be here any more. */
  readonly allocated?: number | undefined
}

/** What is known of bags; the store of `state` is one. */
export interface FactsAccess {
  get(bagId: BagId): BagFacts | undefined
  /** Adds to what is known of the bag; a field that is not given stays as it is. */
  learn(bagId: BagId, facts: BagFacts): void
}
