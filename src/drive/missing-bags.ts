import type { Clock } from '../domain/clock.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { MissingBag } from '../namespace/expire.ts'
import type { DriveService } from '../service/drive-service.ts'
import { hasBag } from '../service/has-bag.ts'

interface MissingBagsDeps {
  readonly service: Pick<DriveService, 'download'>
  readonly clock: Clock
  readonly log: Logger
}

/** Bags that are asked for at the same time. */
const AT_ONCE = 4
/** How long a service whose listing lagged once is taken for one that does. */
const LAGGING_MS = 10 * 60_000

/**
 * Asks the service for bags that it confirmed and its listing lacks. A listing that lags and a bag that
 * another machine removed look the same in it; a download tells them apart.
 */
export class MissingBags {
  readonly #deps: MissingBagsDeps
  readonly #lagMs: number
  /** What was told of each missing bag, and when; bounded by the bags that are missing. */
  readonly #told = new Map<BagId, { readonly atMs: number; readonly isGone: boolean }>()
  readonly #abort = new AbortController()
  /** Until then a bag may be missing for `lagMs` before it is asked for. */
  #laggingUntilMs = 0

  constructor(deps: MissingBagsDeps, settings: { readonly lagMs: number }) {
    this.#deps = deps
    this.#lagMs = settings.lagMs
  }

  /** Those of all missing bags that the service has no more. What it does not tell counts as there. */
  async findGone(missing: readonly MissingBag[]): Promise<ReadonlySet<BagId>> {
    const known = new Set(missing.map(({ bagId }) => bagId))
    for (const bagId of this.#told.keys()) if (!known.has(bagId)) this.#told.delete(bagId)
    const toAsk = missing.filter((one) => this.#isToAsk(one))
    for (let at = 0; at < toAsk.length; at += AT_ONCE) {
      await Promise.all(toAsk.slice(at, at + AT_ONCE).map(({ bagId }) => this.#ask(bagId)))
    }
    return new Set([...known].filter((bagId) => this.#told.get(bagId)?.isGone === true))
  }

  close(): void {
    this.#abort.abort()
  }

  #isToAsk({ bagId, confirmedAtMs }: MissingBag): boolean {
    const now = this.#deps.clock.now()
    const told = this.#told.get(bagId)
    if (told !== undefined) return !told.isGone && now - told.atMs >= this.#lagMs
    return now >= this.#laggingUntilMs || now - confirmedAtMs >= this.#lagMs
  }

  async #ask(bagId: BagId): Promise<void> {
    const { service, clock, log } = this.#deps
    try {
      const isGone = !(await hasBag(service, bagId, { signal: this.#abort.signal }))
      this.#told.set(bagId, { atMs: clock.now(), isGone })
      if (isGone) log.info({ bagId }, 'A bag that was stored from here was removed elsewhere.')
      else this.#laggingUntilMs = clock.now() + LAGGING_MS
    } catch (error) {
      log.debug({ bagId, error: String(error) }, 'Whether a bag is still there is not known.')
    }
  }
}
