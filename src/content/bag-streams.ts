import { BagStream } from './bag-stream.ts'
import type { StreamDependencies, StreamSettings, StreamSink } from './bag-stream.ts'
import type { Need } from './waiters.ts'

/**
 * A position farther than this ahead of a stream is fetched by a request of its own. Waiting for 4
 * MiB costs about what a request costs, on a line of 10 MB/s as on one of 1 GB/s.
 */
const FAR_BYTES = 4 * 1024 * 1024
/** One sequential reader and two that seek; more requests for one bag only share the same line. */
const MAX_STREAMS = 3

/** What the streams of a bag ask of it. */
export interface StreamsHost {
  /** False while a range at `position` could be past the end: then the head is asked for first. */
  mayStartAt(position: number): boolean
  /** Where a new stream lands. */
  land(): StreamSink
  /** A stream ended; `error` when it failed for good. */
  streamEnded(stream: BagStream, error: unknown): void
}

/** The streams of one bag: which there are, and which to start for what readers need. */
export class BagStreams {
  readonly #host: StreamsHost
  readonly #dependencies: StreamDependencies & { readonly mayStart: () => Promise<void> }
  readonly #settings: StreamSettings
  readonly #running = new Map<BagStream, Promise<void>>()

  constructor(
    host: StreamsHost,
    dependencies: StreamDependencies & { readonly mayStart: () => Promise<void> },
    settings: StreamSettings,
  ) {
    this.#host = host
    this.#dependencies = dependencies
    this.#settings = settings
  }

  get size(): number {
    return this.#running.size
  }

  /** Makes sure that a stream brings what is needed, now or when another one has ended. */
  cover(need: Need, needs: readonly Need[]): void {
    const limit = need.position + need.ahead
    const near = this.#live().find((stream) => this.#reaches(stream, need.position))
    if (near !== undefined) {
      near.limit = Math.max(near.limit, limit)
      return
    }
    const position = this.#startFor(need.position)
    if (position === 0 && this.#live().some((stream) => !stream.headSeen)) return
    if (this.#live().length < (this.#dependencies.support.mayAsk ? MAX_STREAMS : 1)) {
      this.#start(position, limit)
      return
    }
    // The end of the stream that is stopped brings this need up again.
    this.#live()
      .find((stream) => !needs.some((other) => this.#reaches(stream, other.position)))
      ?.stop()
  }

  /** Lets the stream that is near `position`, if there is one, go on to `limit`. */
  extend(position: number, limit: number): boolean {
    const near = this.#live().find((stream) => this.#reaches(stream, position))
    if (near !== undefined) near.limit = Math.max(near.limit, limit)
    return near !== undefined
  }

  /** True when a stream is on its way to `position`. */
  isCovered(position: number): boolean {
    return this.#live().some((stream) => this.#reaches(stream, position))
  }

  stopAll(): void {
    for (const stream of this.#running.keys()) stream.stop()
  }

  /** Resolves when every stream that runs now has ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  #live(): BagStream[] {
    return [...this.#running.keys()].filter((stream) => !stream.stopped)
  }

  #reaches(stream: BagStream, position: number): boolean {
    if (stream.position > position) return false
    return !this.#dependencies.support.mayAsk || position - stream.position <= FAR_BYTES
  }

  /** Where a stream for `position` begins. */
  #startFor(position: number): number {
    const { support } = this.#dependencies
    return support.mayAsk && this.#host.mayStartAt(position) ? position : 0
  }

  #start(position: number, limit: number): void {
    const stream = new BagStream(
      this.#host.land(),
      { position, limit },
      this.#dependencies,
      this.#settings,
    )
    this.#running.set(stream, this.#run(stream))
  }

  async #run(stream: BagStream): Promise<void> {
    let failure: unknown
    try {
      await this.#dependencies.mayStart()
      await stream.run()
    } catch (error) {
      failure = error
    }
    this.#running.delete(stream)
    this.#host.streamEnded(stream, failure)
  }
}
