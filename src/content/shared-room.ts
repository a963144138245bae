import type { Logger } from '../domain/logger.ts'
import type { DiskRoom, LastDiskRoom } from './cache-space.ts'

/** Gives up one thing that the disk need not keep; false when there is none left. */
type Giver = () => Promise<boolean>

/** The floor is looked at again after so many bytes. */
const KEEP_EVERY_BYTES = 8 * 1024 * 1024

/**
 * The disk that the cache shares with what programs write. What can be had again gives way to what cannot: first
 * the cache, then the other givers, in their order. What is pinned gives way last, and only to a write that fails.
 */
export class SharedRoom implements DiskRoom {
  readonly #log: Logger
  readonly #cache: LastDiskRoom
  readonly #givers: Giver[] = []
  #writtenBytes = 0
  #isKeeping = false

  constructor(deps: { readonly log: Logger }, cache: LastDiskRoom) {
    this.#log = deps.log
    this.#cache = cache
  }

  /** A giver more, which gives after all that were added before. */
  add(giver: Giver): void {
    this.#givers.push(giver)
  }

  spareBytes(): Promise<number> {
    return this.#cache.spareBytes()
  }

  async evictOne(): Promise<boolean> {
    if (await this.#cache.evictOne()) return true
    for (const giver of this.#givers) if (await giver()) return true
    return false
  }

  /**
   * For a write that failed: gives up what there is until the disk takes so many bytes above its floor, and pinned
   * content until it takes them at all. True when anything went.
   */
  async make(bytes: number): Promise<boolean> {
    let hasGiven = await this.#keepFree(bytes)
    while ((await this.#cache.freeBytes()) < bytes) {
      if (!(await this.#cache.evictPinned())) break
      hasGiven = true
    }
    return hasGiven
  }

  async #keepFree(bytes: number): Promise<boolean> {
    let hasGiven = false
    while ((await this.spareBytes()) < bytes) {
      if (!(await this.evictOne())) break
      hasGiven = true
    }
    return hasGiven
  }

  /** A program wrote so many bytes: the floor of the disk is kept soon. */
  noteWritten(bytes: number): void {
    this.#writtenBytes += bytes
    if (this.#isKeeping || this.#writtenBytes < KEEP_EVERY_BYTES) return
    this.#writtenBytes = 0
    this.#isKeeping = true
    this.#keepFree(KEEP_EVERY_BYTES)
      .catch((error: unknown) => {
        this.#log.warn({ error: String(error) }, 'The room of the local disk is not known.')
      })
      .finally(() => {
        this.#isKeeping = false
      })
  }
}
