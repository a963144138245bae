/** A read of the disk that takes longer than this, and a while for each byte, has not come from the page cache. */
const CACHED_MS = 0.04
const CACHED_MS_PER_BYTE = 1 / 4e6
/** A read that takes longer than this belongs on another thread, even when no other read waits. */
const LONG_MS = 1
/**
 * A read that begins so soon after another was done, in ms, had been waiting for it: over /dev/fuse the answer to the one
 * and the question of the other take 30 to 40 µs. A program that asks one thing after the other takes 45 µs and more
 * to come back (measured on 2 processors).
 */
const QUEUED_MS = 0.045
/** Of so many reads that were to be handed over, one is done at once, to see how the disk is now. */
const LOOK_EVERY = 64

/**
 * Decides whether a read of complete content is done at once or by another thread. From the page
 * cache, at once is three times as quick. From the disk, several at the same time take as long as
 * one; one after the other, each waits for all before it.
 */
export class ReadDispatcher {
  readonly #now: () => number
  #disk: 'quick' | 'slow' | 'very slow' = 'quick'
  #handedOver = 0
  #sinceLook = 0
  #endedMs = -Infinity

  /** `now` is monotonic, in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** True when the read that is to begin had better be another thread's. */
  isToHandOver(): boolean {
    if (this.#disk === 'quick') return false
    if (this.#disk === 'slow' && !this.#isCrowded()) return false
    this.#sinceLook = (this.#sinceLook + 1) % LOOK_EVERY
    return this.#sinceLook !== 0
  }

  /** Does a read at once and notes how long it took. */
  atOnce<Result>(bytes: number, read: () => Result): Result {
    const startedMs = this.#now()
    try {
      return read()
    } finally {
      this.#endedMs = this.#now()
      const tookMs = this.#endedMs - startedMs
      if (tookMs > LONG_MS) this.#disk = 'very slow'
      else this.#disk = tookMs > CACHED_MS + bytes * CACHED_MS_PER_BYTE ? 'slow' : 'quick'
    }
  }

  /** Notes a read that another thread does. */
  async handOver<Result>(read: () => Promise<Result>): Promise<Result> {
    this.#handedOver += 1
    try {
      return await read()
    } finally {
      this.#handedOver -= 1
    }
  }

  #isCrowded(): boolean {
    return this.#handedOver > 0 || this.#now() - this.#endedMs < QUEUED_MS
  }
}
