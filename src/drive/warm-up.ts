import type { BagCache } from '../content/bag-cache.ts'
import { DriveError, isDriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Entry } from '../namespace/entry.ts'
import { AT_ONCE, type FetchAhead } from './fetch-ahead.ts'
import { findTop, type Walk } from './find-top.ts'
import type { Pins } from './pins.ts'
import type { Contents } from './root/contents.ts'
import type { Entries } from './root/entries.ts'
import type { Nodes } from './tree/nodes.ts'

interface WarmUpDeps {
  readonly nodes: Nodes
  readonly entries: Entries
  readonly contents: Contents
  readonly cache: BagCache
  readonly fetchAhead: FetchAhead
  readonly pins: Pick<Pins, 'bytesBeside'>
}

export interface WarmUpOptions {
  readonly onProgress: (progress: WarmUpProgress) => void
  readonly signal: AbortSignal
}

/** Bags and bytes that are here, of those that are wanted. */
export interface WarmUpProgress {
  readonly bags: number
  readonly ofBags: number
  readonly bytes: number
  readonly ofBytes: number
}

/** How a warm-up ended. */
export interface WarmedUp {
  readonly bags: number
  readonly bytes: number
  /** What could not be had, and why. */
  readonly failed: readonly { readonly name: string; readonly reason: string }[]
}

interface WantedBag {
  readonly bagId: BagId
  readonly name: string
  /** In bytes, as far as it is known. */
  readonly size: number
}

/** What another bag would meet as well. */
const ENDS_ALL: readonly DriveErrorCode[] = [
  ...(['unavailable', 'timed-out', 'unauthorized', 'forbidden', 'rate-limited'] as const),
  ...(['interrupted', 'local-disk-full', 'local-io', 'too-many-open'] as const),
]

/** Fetches content ahead, so that it can be read without the network. */
export class WarmUp {
  readonly #deps: WarmUpDeps

  constructor(deps: WarmUpDeps) {
    this.#deps = deps
  }

  /**
   * Fetches what is at a path into the cache: a file, a folder with all that is in it, or without names all of the account.
   * A folder is one bag, so of something in it all of it is fetched. Rejects `too-large`, with nothing fetched, for what the
   * cache cannot hold.
   */
  async fetch(
    names: readonly string[],
    walk: Walk,
    { onProgress, signal }: WarmUpOptions,
  ): Promise<WarmedUp> {
    const wanted = await this.#bagsAt(names, walk)
    const ofBytes = wanted.reduce((sum, { size }) => sum + size, 0)
    this.#refuseTooLarge(wanted, ofBytes)
    for (const { bagId } of wanted) this.#deps.cache.renew(bagId)
    const failed: { name: string; reason: string }[] = []
    let bytes = 0
    let bags = 0
    const tell = (more: number): void => {
      bytes += more
      onProgress({ bags, ofBags: wanted.length, bytes, ofBytes })
    }
    tell(0)
    const stop = new AbortController()
    const either = AbortSignal.any([signal, stop.signal])
    const left = wanted.values()
    const work = async (): Promise<void> => {
      for (const bag of left) {
        try {
          await this.#fetchBag(bag, tell, either)
          bags += 1
        } catch (error) {
          if (!isDriveError(error) || ENDS_ALL.includes(error.code)) {
            stop.abort(error)
            throw error
          }
          failed.push({ name: bag.name, reason: error.message })
        }
        tell(0)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    return { bags, bytes, failed }
  }

  /** Tells how many more bytes are here each time. */
  async #fetchBag(
    { bagId, size }: WantedBag,
    tell: (more: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { cache } = this.#deps
    if (signal.aborted) throw signal.reason
    if (cache.isComplete(bagId)) {
      tell(size)
      return
    }
    let reported = 0
    const onProgress = (copied: number): void => {
      tell(copied - reported)
      reported = copied
    }
    await this.#deps.fetchAhead.fetch(bagId, { signal, onProgress, isBehind: false })
  }

  async #bagsAt(names: readonly string[], walk: Walk): Promise<readonly WantedBag[]> {
    const { entries, contents } = this.#deps
    if (names.length === 0) {
      await entries.fresh()
      return toBags([...entries.tree().entries()], contents)
    }
    const { entry } = await findTop(names, walk, this.#deps.nodes)
    return entry === undefined ? [] : toBags([entry], contents)
  }

  #refuseTooLarge(wanted: readonly WantedBag[], bytes: number): void {
    const { cache, pins } = this.#deps
    const { maxBytes } = cache.stats()
    const pinned = pins.bytesBeside(new Set(wanted.map(({ bagId }) => bagId)))
    if (bytes <= maxBytes - pinned) return
    const beside = pinned === 0 ? '' : `, with ${pinned} of what is pinned`
    const message = `This takes ${bytes} bytes, and the cache holds ${maxBytes}${beside}.`
    throw new DriveError('too-large', message, {
      hint: 'Choose less of it, or mount with a larger --cache-size.',
    })
  }
}

/** Content that was written here waits on this machine already, and is no bag yet. */
function toBags(entries: readonly Entry[], contents: Contents): readonly WantedBag[] {
  const bags = new Map<BagId, WantedBag>()
  for (const entry of entries) {
    const bag = contents.bagOf(entry)
    if (bag === undefined) continue
    bags.set(bag.bagId, { bagId: bag.bagId, name: entry.shown, size: bag.bytes })
  }
  return [...bags.values()]
}
