import { DriveError } from '../domain/errors.ts'
import type { StreamSettings } from './bag-stream.ts'
import { Landing, type LandingDependencies } from './landing.ts'
import type { StreamCount } from './stream-count.ts'
import type { Need } from './waiters.ts'

/**
 * A position farther than this ahead of a stream is fetched by a request of its own. Waiting for 4
 * MiB costs about what a request costs, on a line of 10 MB/s as on one of 1 GB/s.
 */
const FAR_BYTES = 4 * 1024 * 1024
/** Reads that wait within this of each other are one that goes on: the kernel reads ahead by several at a time. */
const IN_A_ROW_BYTES = 2 * 1024 * 1024
/** One sequential reader and two that seek; of what is read in a row there are as many as `StreamCount` says. */
const MAX_STREAMS = 3

type LandingStart = ConstructorParameters<typeof Landing>[0]

interface StreamsDependencies extends Omit<LandingDependencies, 'took'> {
  readonly count: StreamCount
  /** Resolves when the disk can take on more. */
  readonly mayStart: () => Promise<void>
}

/** The streams of one bag, each with the place where it lands: which there are, and which to start for what readers need. */
export class BagStreams {
  readonly #dependencies: StreamsDependencies
  readonly #settings: StreamSettings
  readonly #running = new Map<Landing, Promise<void>>()
  /** Streams that bring what comes after others, each with the call that gives its right back. */
  readonly #beside = new Map<Landing, () => void>()

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
    const first = firstInARow(need, needs)
    const near = this.#live().find(
      (landing) => landing.position <= need.position && this.#isNear(landing, first),
    )
    if (near !== undefined) {
      this.#extend(near, limit)
      return
    }
    const position = this.#startFor(need.position)
    if (position === 0 && this.#live().some((landing) => !landing.headSeen)) return
    if (this.#live().length < this.#most) {
      this.#start({ position, limit })
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
    if (near !== undefined) this.#extend(near, limit)
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

  get #most(): number {
    const { support, count } = this.#dependencies
    return support.mayAsk ? MAX_STREAMS + count.wanted - 1 : 1
  }

  /** What goes on beside a stream brings what comes after it. */
  #extend(near: Landing, limit: number): void {
    for (const landing of this.#live()) {
      if (landing.position >= near.position) landing.limit = Math.max(landing.limit, limit)
    }
    this.#goBeside()
  }

  #reaches(landing: Landing, position: number): boolean {
    return landing.position <= position && this.#isNear(landing, position)
  }

  #isNear(landing: Landing, position: number): boolean {
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

  #start(from: LandingStart): Landing {
    const { count } = this.#dependencies
    const took = (bytes: number): void => {
      this.#goBeside()
      count.came(bytes, this.#live().length)
    }
    const landing = new Landing(from, { ...this.#dependencies, took }, this.#settings)
    this.#running.set(landing, this.#run(landing))
    return landing
  }

  async #run(landing: Landing): Promise<void> {
    try {
      await this.#dependencies.mayStart()
      await landing.run()
      this.#running.delete(landing)
    } catch (error) {
      this.#running.delete(landing)
      if (this.#beside.has(landing)) this.#failedBeside(landing, error)
      else this.#failed(landing, error)
    }
    this.#beside.get(landing)?.()
    this.#beside.delete(landing)
    if (this.#running.size === 0) this.#dependencies.count.ended()
    // What readers wait for comes first.
    this.#dependencies.changed()
    this.#goBeside()
  }

  /** Has as many streams as are wanted for what is read in a row: each brings a block, and the next begins where all end. */
  #goBeside(): void {
    const { count, support, content } = this.#dependencies
    const live = this.#live()
    const wanted = support.canResume && !content.isToOverlap ? count.wanted : 1
    if (live.length > wanted) this.#stopFarthest(live)
    if (live.length === 0 || live.length >= wanted) return
    const from = this.#nextBlock(live)
    if (from === undefined) return
    const giveBack = count.takeBeside()
    if (giveBack === undefined) return
    for (const landing of live) landing.end = Math.min(landing.end, from.position)
    this.#beside.set(this.#start(from), giveBack)
  }

  #stopFarthest(live: readonly Landing[]): void {
    const beside = live.filter((landing) => this.#beside.has(landing))
    beside.sort((a, b) => b.position - a.position)[0]?.stop()
  }

  /** Undefined where there is too little left, or no room for more than what readers wait for. */
  #nextBlock(live: readonly Landing[]): LandingStart | undefined {
    const { count, content, window } = this.#dependencies
    const { total, ranges } = content.file
    const [open, other] = live.filter(({ end }) => end === Infinity)
    if (total === undefined || other !== undefined || window.wasNeeded) return undefined
    const limit = Math.min(total, Math.max(...live.map((landing) => landing.limit)))
    const from = open?.position ?? Math.max(...live.map(({ end }) => end))
    const block = count.blockOf(limit - from, open === undefined ? 1 : 2)
    if (block === undefined) return undefined
    const position = ranges.firstGap(open === undefined ? from : from + block)
    const end = Math.min(limit, position + block)
    return end > position ? { position, limit, end } : undefined
  }

  /** What readers wait for is asked for once more, by a stream that has no other beside it. */
  #failedBeside({ position }: Landing, error: unknown): void {
    const { log, content, count } = this.#dependencies
    log.info({ bagId: content.bagId, position, err: error }, 'A download beside another failed.')
    count.failed()
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

/** The first position that is waited for, of those that follow each other up to this one. */
function firstInARow(need: Need, needs: readonly Need[]): number {
  let first = need.position
  const before = needs.map(({ position }) => position).sort((a, b) => b - a)
  for (const position of before) {
    if (position < first && first - position <= IN_A_ROW_BYTES) first = position
  }
  return first
}
