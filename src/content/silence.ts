import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import { LEAST_BYTES_PER_SECOND } from '../service/slow-answer.ts'

/** The body may stand still for this part of what is allowed in all; then there is time to ask anew. */
const STALL_SHARE = 3
/** A limit on standing still ends up to a quarter later. */
const STALL_SLACK = 1.25

/**
 * How long a stream has brought less than `LEAST_BYTES_PER_SECOND`, over all its tries. A reader waits no longer than
 * this allows, whichever layer repeats what. Waiting for a turn and for the disk is no silence.
 */
export class Silence {
  readonly #clock: Clock
  readonly #mostMs: number
  /** Before the wait that is under way. */
  #beforeMs = 0
  /** Bytes that came meanwhile, too few for the time. */
  #bytes = 0
  /** How much of that went by between two tries. */
  #pausedMs = 0
  /** Start of that wait, and the most that it can count: a clock may be set meanwhile. */
  #wait: { readonly sinceMs: number; readonly mostMs: number } | undefined

  constructor(clock: Clock, mostMs: number) {
    this.#clock = clock
    this.#mostMs = mostMs
  }

  /** Milliseconds that may still pass at less than the least speed. */
  get leftMs(): number {
    return Math.max(0, this.#mostMs - this.#beforeMs - this.#waitedMs)
  }

  /** Limits of the next request. */
  get limits(): { readonly answerMs: number; readonly stallMs: number } {
    const { leftMs } = this
    const stallMs = Math.min(leftMs, this.#mostMs / STALL_SHARE)
    return { answerMs: Math.max(1, leftMs), stallMs: Math.max(1, stallMs) }
  }

  /** The request goes out: its head is waited for. */
  requestSent(): void {
    this.#begin(this.leftMs)
  }

  /** The head is here, and its bytes are waited for. */
  answered(): void {
    this.#begin(this.limits.stallMs * STALL_SLACK)
  }

  /**
   * Bytes are here. The silence is over when they are enough for its time. It does not count before
   * `answered` while the disk takes them.
   */
  came(bytes: number): void {
    this.#beforeMs += this.#waitedMs
    this.#bytes += bytes
    this.#wait = undefined
    if (this.#bytes * 1000 < LEAST_BYTES_PER_SECOND * this.#beforeMs) return
    this.#beforeMs = 0
    this.#bytes = 0
    this.#pausedMs = 0
  }

  /** Throws `timed-out` when bytes come, but too few of them for too long. */
  check(): void {
    if (this.#bytes > 0 && this.leftMs === 0) throw this.error()
  }

  /** What the reader is told once no time is left. */
  error(cause?: unknown): DriveError {
    const words =
      this.#bytes > 0
        ? 'The content comes too slowly.'
        : `No byte of the content came in ${this.#mostMs / 1000} s.`
    return new DriveError('timed-out', words, { cause })
  }

  /** The try is over, or time was spent between two. */
  failed(pausedMs = 0): void {
    this.#beforeMs += this.#waitedMs + pausedMs
    this.#pausedMs += pausedMs
    this.#wait = undefined
  }

  /** True when the service was silent for most of the time; false when it refused one try after another. */
  get isOfService(): boolean {
    return this.#pausedMs < this.#beforeMs / 2
  }

  get #waitedMs(): number {
    if (this.#wait === undefined) return 0
    const { sinceMs, mostMs } = this.#wait
    return Math.min(Math.max(0, this.#clock.now() - sinceMs), mostMs)
  }

  #begin(mostMs: number): void {
    this.#beforeMs += this.#waitedMs
    this.#wait = { sinceMs: this.#clock.now(), mostMs }
  }
}
