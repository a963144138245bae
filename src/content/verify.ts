import { DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { BagCache } from './bag-cache.ts'

/** What `bagfs cache verify` found; counts of bags with complete content. */
export interface VerifyReport {
  readonly good: number
  /** Nothing is known to compare them with. */
  readonly unknown: number
  /** Set aside; they are downloaded again when they are read. */
  readonly bad: readonly BagId[]
  /** Those that the disk would not read. */
  readonly unreadable: readonly { readonly bagId: BagId; readonly reason: string }[]
}

/**
 * Reads all complete content of the cache again and compares it with the SHA-256 that is known.
 * `bagIds` are the bags that might be there. Stops when `signal` is aborted, with its reason.
 */
export async function verifyCache(
  cache: BagCache,
  bagIds: Iterable<BagId>,
  options: { readonly onProgress?: (checked: number) => void; readonly signal?: AbortSignal } = {},
): Promise<VerifyReport> {
  const found = { good: 0, unknown: 0 }
  const bad: BagId[] = []
  const unreadable: { bagId: BagId; reason: string }[] = []
  let checked = 0
  for (const bagId of bagIds) {
    options.signal?.throwIfAborted()
    if (!cache.isComplete(bagId)) continue
    try {
      const result = await cache.verify(bagId)
      if (result === 'bad') bad.push(bagId)
      else found[result] += 1
    } catch (error) {
      if (!(error instanceof DriveError)) throw error
      unreadable.push({ bagId, reason: error.message })
    }
    checked += 1
    options.onProgress?.(checked)
  }
  return { ...found, bad, unreadable }
}
