import type { BagId } from '../domain/ids.ts'
import type { BagFacts } from '../domain/record.ts'

/** The facts of bags as content/ needs them; the store of state/ is one. */
export interface FactsAccess {
  get(bagId: BagId): BagFacts | undefined
  /** Adds to what is known of the bag; a field that is not given stays as it is. */
  learn(bagId: BagId, facts: BagFacts): void
}
