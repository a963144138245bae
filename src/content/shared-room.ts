import type { Logger } from '../domain/logger.ts'
import type { DiskRoom } from './cache-space.ts'

/** Gives up one thing that the disk need not keep; false when there is none left. */
type Giver = () => Promise<boolean>

/** The floor is looked at again after so many bytes. */
const KEEP_EVERY_BYTES = 8 * 1024 * 1024

/**
 * The disk that the cache shares with what programs write. What can be had again gives way to what cannot: first
 * the cache, then the other givers, in their order.
 */
export class SharedRoom implements DiskRoom {
  readonly #log: Logger
  readonly #cache: DiskRoom
  readonly #givers: Giver[] = []
  #writtenBytes = 0
  #isKeeping = false

  constructor(deps: { readonly log: Logger }, cache: DiskRoom) {
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

  /** Gives up what there is until the disk takes so many bytes above its floor; true when anything went. */
  async make(bytes: number): Promise<boolean> {
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
    this.make(KEEP_EVERY_BYTES)
      .catch((error: unknown) => {
        this.#log.warn({ error: String(error) }, 'The room of the local disk is not known.')
      })
      .finally(() => {
        this.#isKeeping = false
      })
  }
}
