import PQueue from 'p-queue'
import type { BagCache } from '../content/bag-cache.ts'
import type { BagId } from '../domain/ids.ts'

/** Bags that are fetched ahead of their readers at the same time. */
export const AT_ONCE = 4
/** A person waits for a warm-up, and nothing for what is pinned. */
const PRIORITY = { person: 1, behind: 0 }

interface FetchAheadOptions {
  readonly signal: AbortSignal
  /** Lets all else go first: reads of programs, and what a person waits for. */
  readonly isBehind: boolean
  /** Called with the bytes that were read so far. */
  readonly onProgress?: (bytes: number) => void
}

/** The one queue of bags that are fetched before a program reads them. */
export class FetchAhead {
  readonly #cache: Pick<BagCache, 'fetch'>
  readonly #queue = new PQueue({ concurrency: AT_ONCE })

  constructor({ cache }: { readonly cache: Pick<BagCache, 'fetch'> }) {
    this.#cache = cache
  }

  /** Resolves when all of it is in the cache; rejects as `BagCache.fetch`. */
  async fetch(bagId: BagId, options: FetchAheadOptions): Promise<void> {
    const priority = options.isBehind ? PRIORITY.behind : PRIORITY.person
    await this.#queue.add(
      async () => {
        options.signal.throwIfAborted()
        await this.#cache.fetch(bagId, options)
      },
      { priority },
    )
  }
}
