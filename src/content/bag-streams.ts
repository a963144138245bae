import { DriveError } from '../domain/errors.ts'
import type { StreamSettings } from './bag-stream.ts'
import { Landing, type LandingDependencies } from './landing.ts'
import type { Need } from './waiters.ts'

/**
 * A position farther than this ahead of a stream is fetched by a request of its own. Waiting for 4
 * MiB costs about what a request costs, on a line of 10 MB/s as on one of 1 GB/s.
 */
const FAR_BYTES = 4 * 1024 * 1024
/** One sequential reader and two that seek; more requests for one bag only share the same line. */
const MAX_STREAMS = 3

interface StreamsDependencies extends LandingDependencies {
  /** Resolves when the disk can take on more. */
  readonly mayStart: () => Promise<void>
}

/** The streams of one bag, each with the place where it lands: which there are, and which to start for what readers need. */
export class BagStreams {
  readonly #dependencies: StreamsDependencies
  readonly #settings: StreamSettings
  readonly #running = new Map<Landing, Promise<void>>()

  constructor(dependencies: StreamsDependencies, settings: StreamSettings) {
    this.#dependencies = dependencies
    this.#settings = settings
  }

  get size(): number {
    return this.#running.size
  }

  /** Makes sure that a stream brings what is needed, now or when another one has ended. */
  cover(need: Need, needs: readonly Need[]): void {
    const limit = need.position + need.ahead
    const near = this.#live().find((landing) => this.#reaches(landing, need.position))
    if (near !== undefined) {
      near.limit = Math.max(near.limit, limit)
      return
    }
    const position = this.#startFor(need.position)
    if (position === 0 && this.#live().some((landing) => !landing.headSeen)) return
    if (this.#live().length < (this.#dependencies.support.mayAsk ? MAX_STREAMS : 1)) {
      this.#start(position, limit)
      return
    }
    // The end of the stream that is stopped brings this need up again.
    this.#live()
      .find((landing) => !needs.some((other) => this.#reaches(landing, other.position)))
      ?.stop()
  }

  /** Lets the stream that is near `position`, if there is one, go on to `limit`. */
  extend(position: number, limit: number): boolean {
    const near = this.#live().find((landing) => this.#reaches(landing, position))
    if (near !== undefined) near.limit = Math.max(near.limit, limit)
    return near !== undefined
  }

  stopAll(): void {
    for (const landing of this.#running.keys()) landing.stop()
  }

  /** Resolves when every stream that runs now has ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  #live(): Landing[] {
    return [...this.#running.keys()].filter((landing) => !landing.stopped)
  }

  #reaches(landing: Landing, position: number): boolean {
    if (landing.position > position) return false
    return !this.#dependencies.support.mayAsk || position - landing.position <= FAR_BYTES
  }

  /** Where a stream for `position` begins. While a range could be past the end, the head is asked for first. */
  #startFor(position: number): number {
    const { support, content } = this.#dependencies
    if (!support.mayAsk) return 0
    const isInside =
      content.description !== undefined ||
      content.length !== undefined ||
      content.known.isInside(position)
    return isInside ? position : 0
  }

  #start(position: number, limit: number): void {
    const landing = new Landing({ position, limit }, this.#dependencies, this.#settings)
    this.#running.set(landing, this.#run(landing))
  }

  async #run(landing: Landing): Promise<void> {
    try {
      await this.#dependencies.mayStart()
      await landing.run()
      this.#running.delete(landing)
    } catch (error) {
      this.#running.delete(landing)
      this.#failed(landing, error)
    }
    this.#dependencies.changed()
  }

  #failed({ position }: Landing, error: unknown): void {
    const { support, log, content, waiters } = this.#dependencies
    const isPastEnd = error instanceof DriveError && error.facts.status === 416
    // A range that the service will not have: go without, whatever it does for other bags.
    if (isPastEnd && support.refuse()) return
    log.warn({ bagId: content.bagId, position, err: error }, 'A download failed.')
    const isCovered = (need: Need | undefined): boolean =>
      need === undefined || this.#live().some((landing) => this.#reaches(landing, need.position))
    waiters.fail(error, isCovered)
  }
}
