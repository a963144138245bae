import type { Clock } from '../domain/clock.ts'

/** The service is asked by eight connections for content: other bags need some, too. */
const MOST = 4
/** What is measured takes at least so long, and is at least so much. */
const WINDOW_MS = 1_000
const WINDOW_BYTES = 2 * 1024 * 1024
/** The first look is short, so that files of some megabytes gain, too. It comes out low, and a second stream is tried soon. */
const FIRST_WINDOW_MS = 300
const FIRST_WINDOW_BYTES = 1024 * 1024
/** After such a pause a new measurement begins: a reader that pauses says nothing of the line. */
const IDLE_MS = 1_000
/** One stream more has to make it faster by this, or it is not kept. */
const GAIN = 1.25
/** A line that was found full is not tried again for so long. */
const REST_MS = 60_000
/** Here the processor is what a stream waits for. */
const FAST_BYTES_PER_SECOND = 200_000_000
/** What a stream brings at a time, when it is one of several: so many seconds of it, within these bounds in bytes. */
const BLOCK_SECONDS = 2
const LEAST_BLOCK_BYTES = 2 * 1024 * 1024
const MOST_BLOCK_BYTES = 16 * 1024 * 1024

interface Window {
  readonly running: number
  readonly startedMs: number
  lastMs: number
  bytes: number
  /** A connection is slow at first: the window in which a stream was added is not judged. */
  readonly isFirst: boolean
}

/**
 * How many streams bring one bag side by side: as many as make it faster. With latency, one connection gets a part
 * of what a line can; a line that one connection fills is only shared by more of them. One stream more is tried
 * now and then, and kept when it is measured to gain. Shared by all bags, as they share the line.
 */
export class StreamCount {
  readonly #clock: Clock
  #best = 1
  #trial: number | undefined
  /** What `#best` streams brought in all, in bytes per second. */
  #rate = 0
  #restUntilMs = -Infinity
  #window: Window | undefined
  /** Streams of all bags that run beside another one. */
  #beside = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many streams a bag is to have now, when there is enough left for them. */
  get wanted(): number {
    return this.#trial ?? this.#best
  }

  /**
   * Bytes that one of several streams is to bring before it looks where to go on, when `streams` of them share `left`
   * bytes; undefined where these are too few to be shared.
   */
  blockOf(left: number, streams: number): number | undefined {
    const share = Math.floor(left / streams)
    if (share < LEAST_BLOCK_BYTES) return undefined
    const bytes = Math.round((BLOCK_SECONDS * this.#rate) / this.#best)
    return Math.min(share, MOST_BLOCK_BYTES, Math.max(LEAST_BLOCK_BYTES, bytes))
  }

  /** Takes the right to one more stream beside others; undefined when other bags have it. To be given back by a call. */
  takeBeside(): (() => void) | undefined {
    if (this.#beside >= MOST - 1) return undefined
    this.#beside += 1
    return () => {
      this.#beside -= 1
    }
  }

  /** Bytes came to a bag that `running` streams bring. */
  came(bytes: number, running: number): void {
    const nowMs = this.#clock.now()
    const window = this.#windowOf(running, nowMs)
    window.lastMs = nowMs
    window.bytes += bytes
    const ms = nowMs - window.startedMs
    const isFirstLook = this.#rate === 0
    if (ms < (isFirstLook ? FIRST_WINDOW_MS : WINDOW_MS)) return
    if (window.bytes < (isFirstLook ? FIRST_WINDOW_BYTES : WINDOW_BYTES)) return
    this.#window = { running, startedMs: nowMs, lastMs: nowMs, bytes: 0, isFirst: false }
    if (window.isFirst && !isFirstLook) return
    if (running === this.wanted) this.#judge((window.bytes * 1000) / ms, nowMs)
  }

  /** No stream of a bag runs any more: what comes next says nothing of the time between. */
  ended(): void {
    this.#window = undefined
  }

  /** A stream beside others failed: the service may not like so many. */
  failed(): void {
    this.#best = 1
    this.#giveUp(this.#clock.now())
  }

  #windowOf(running: number, nowMs: number): Window {
    const window = this.#window
    const isSame = window?.running === running && nowMs - window.lastMs <= IDLE_MS
    if (window !== undefined && isSame) return window
    return (this.#window = {
      ...{ running, startedMs: nowMs, lastMs: nowMs, bytes: 0, isFirst: true },
    })
  }

  #judge(rate: number, nowMs: number): void {
    if (this.#trial !== undefined && rate < GAIN * this.#rate) {
      this.#giveUp(nowMs)
      return
    }
    this.#best = this.#trial ?? this.#best
    this.#trial = undefined
    this.#rate = rate
    if (nowMs < this.#restUntilMs || rate > FAST_BYTES_PER_SECOND || this.#best >= MOST) return
    this.#trial = this.#best + 1
  }

  #giveUp(nowMs: number): void {
    this.#trial = undefined
    this.#restUntilMs = nowMs + REST_MS
  }
}
