import PQueue from 'p-queue'
import { makeClosing } from '../../domain/closing.ts'
import type { Clock } from '../../domain/clock.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { DoubtfulBag } from '../../intents/expire.ts'
import type { Listing } from '../../namespace/listing.ts'
import type { StorageService } from '../../service/storage-service.ts'
import { askForBag } from '../../service/has-bag.ts'

interface MissingBagsDeps {
  readonly service: Pick<StorageService, 'download'>
  readonly listing: Pick<Listing, 'refreshNow'>
  readonly clock: Clock
  readonly log: Logger
}

/** Bags that are asked for at the same time. */
const AT_ONCE = 4
/** How long a service whose listing lagged once is taken for one that does. */
const LAGGING_MS = 10 * 60_000

/**
 * Asks the service for bags that it confirmed and its listing lacks, and for those that it deleted and its
 * listing has. A listing that lags and what another machine did look the same in it; a download tells them
 * apart.
 */
export class MissingBags {
  readonly #deps: MissingBagsDeps
  readonly #lagMs: number
  /** What was told of each bag, and when; bounded by the bags that are in doubt. */
  readonly #answers = new Map<BagId, { readonly atMs: number; readonly isGone: boolean }>()
  /** Since when a bag was neither handed out nor listed, in ms since the epoch. */
  readonly #absentSinceMs = new Map<BagId, number>()
  readonly #queue = new PQueue({ concurrency: AT_ONCE })
  readonly #abort = makeClosing()
  /** Until then a bag may be missing for `lagMs` before it is asked for. */
  #laggingUntilMs = 0

  constructor(deps: MissingBagsDeps, settings: { readonly lagMs: number }) {
    this.#deps = deps
    this.#lagMs = settings.lagMs
  }

  /**
   * `missing` are bags that the listing lacks: answers those of them that are gone. `returned` are bags that it has
   * although they were deleted: answers those that are back. What the service does not tell counts as neither.
   */
  async look(
    missing: readonly DoubtfulBag[],
    returned: readonly DoubtfulBag[],
  ): Promise<{ readonly gone: ReadonlySet<BagId>; readonly back: ReadonlySet<BagId> }> {
    const known = new Set([...missing, ...returned].map(({ bagId }) => bagId))
    for (const bagId of this.#answers.keys()) if (!known.has(bagId)) this.#answers.delete(bagId)
    await this.#askAll(
      missing.filter((one) => this.#isToAsk(one)),
      false,
    )
    await this.#askAll(
      returned.filter((one) => this.#isToAskAgain(one)),
      true,
    )
    const answered = (bags: readonly DoubtfulBag[], isGone: boolean): ReadonlySet<BagId> =>
      new Set(
        bags.map(({ bagId }) => bagId).filter((id) => this.#answers.get(id)?.isGone === isGone),
      )
    const lagMs = this.#lagMs
    const now = this.#deps.clock.now()
    const late = returned.filter(({ confirmedAtMs }) => now - confirmedAtMs >= lagMs)
    return { gone: answered(missing, true), back: answered(late, false) }
  }

  /**
   * True for a bag that does not come back. The service has none of that id, and a listing that is asked for now
   * lacks it. Both was so for as long as a listing may lag. Rejects when the service does not tell.
   */
  async isGone(bagId: BagId, signal: AbortSignal = this.#abort.signal): Promise<boolean> {
    const { service, listing, clock } = this.#deps
    const { isThere } = await askForBag(service, bagId, { signal })
    if (isThere || (await listing.refreshNow(signal)).index.recordsOf(bagId).length > 0) {
      this.#absentSinceMs.delete(bagId)
      return false
    }
    const now = clock.now()
    const sinceMs = this.#absentSinceMs.get(bagId) ?? now
    this.#absentSinceMs.set(bagId, sinceMs)
    return now - sinceMs >= this.#lagMs
  }

  close(): void {
    this.#abort.abort()
  }

  #isToAsk({ bagId, confirmedAtMs }: DoubtfulBag): boolean {
    const now = this.#deps.clock.now()
    const answer = this.#answers.get(bagId)
    if (answer !== undefined) return !answer.isGone && now - answer.atMs >= this.#lagMs
    return now >= this.#laggingUntilMs || now - confirmedAtMs >= this.#lagMs
  }

  /** A listing may show what was deleted for as long as it may lag. */
  #isToAskAgain({ bagId, confirmedAtMs }: DoubtfulBag): boolean {
    const now = this.#deps.clock.now()
    const answer = this.#answers.get(bagId)
    if (answer !== undefined && now - answer.atMs < this.#lagMs) return false
    return now - confirmedAtMs >= this.#lagMs
  }

  async #askAll(bags: readonly DoubtfulBag[], isLateWhenGone: boolean): Promise<void> {
    await this.#queue.addAll(
      bags.map(
        ({ bagId }) =>
          () =>
            this.#ask(bagId, isLateWhenGone),
      ),
    )
  }

  async #ask(bagId: BagId, isLateWhenGone: boolean): Promise<void> {
    const { service, clock, log } = this.#deps
    try {
      const { isThere } = await askForBag(service, bagId, { signal: this.#abort.signal })
      const isGone = !isThere
      this.#answers.set(bagId, { atMs: clock.now(), isGone })
      log.debug({ bagId, isGone }, 'The service was asked for a bag that its listing has wrong.')
      if (isGone === isLateWhenGone) this.#laggingUntilMs = clock.now() + LAGGING_MS
    } catch (error) {
      log.debug({ bagId, error: String(error) }, 'Whether a bag is still there is not known.')
    }
  }
}
