import type { Clock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { DriveService } from './drive-service.ts'

interface BreakerSettings {
  /** How long calls fail at once after the service gave no answer; doubles while it stays dead. */
  readonly firstPauseMs: number
  readonly longestPauseMs: number
}

const DEFAULTS: BreakerSettings = { firstPauseMs: 1_000, longestPauseMs: 10_000 }

/**
 * A service that is dead or silent costs its callers one deadline and not one each: after a call
 * without any answer, others fail at once with `unavailable`, until a single one that is let through
 * after a pause gets an answer. Any answer counts, also a refusal.
 */
export function withBreaker(
  service: DriveService,
  deps: { readonly clock: Clock; readonly log: Logger },
  settings: BreakerSettings = DEFAULTS,
): DriveService {
  const breaker = new Breaker(deps, settings)
  return {
    uploadFile: (source, options) => breaker.call(() => service.uploadFile(source, options)),
    uploadFolder: (source, options) => breaker.call(() => service.uploadFolder(source, options)),
    addById: (bagId, options) => breaker.call(() => service.addById(bagId, options)),
    download: (bagId, options) => breaker.call(() => service.download(bagId, options)),
    deleteBag: (bagId, options) => breaker.call(() => service.deleteBag(bagId, options)),
    listFiles: (options) => breaker.call(() => service.listFiles(options)),
    getAccount: (options) => breaker.call(() => service.getAccount(options)),
    close: () => service.close(),
  }
}

class Breaker {
  readonly #deps: { readonly clock: Clock; readonly log: Logger }
  readonly #settings: BreakerSettings
  /** Calls without an answer in a row. */
  #failures = 0
  #closedUntilMs = 0
  #isTrying = false

  constructor(deps: { readonly clock: Clock; readonly log: Logger }, settings: BreakerSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  async call<Result>(task: () => Promise<Result>): Promise<Result> {
    const isTrial = this.#failures > 0
    if (isTrial) this.#admitTrial()
    try {
      const result = await task()
      this.#answered()
      return result
    } catch (error) {
      if (isUnanswered(error)) this.#unanswered()
      else if (isDriveError(error) && error.facts.status !== undefined) this.#answered()
      throw error
    } finally {
      if (isTrial) this.#isTrying = false
    }
  }

  #admitTrial(): void {
    const waitMs = this.#closedUntilMs - this.#deps.clock.now()
    if (waitMs <= 0 && !this.#isTrying) {
      this.#isTrying = true
      return
    }
    throw new DriveError('unavailable', 'The service does not answer.', {
      hint: 'It is tried again within seconds. What is cached can be read meanwhile.',
    })
  }

  #answered(): void {
    if (this.#failures > 0) this.#deps.log.info({}, 'The service answers again.')
    this.#failures = 0
  }

  #unanswered(): void {
    const { firstPauseMs, longestPauseMs } = this.#settings
    // Calls that were under way together found out the same thing.
    if (this.#deps.clock.now() < this.#closedUntilMs) return
    const pause = Math.min(firstPauseMs * 2 ** this.#failures, longestPauseMs)
    this.#failures += 1
    this.#closedUntilMs = this.#deps.clock.now() + pause
  }
}

/** True when nothing came back: no connection, or silence. A slow body of one call says nothing of others. */
function isUnanswered(error: unknown): boolean {
  return isDriveError(error, 'unavailable', 'timed-out') && error.facts.status === undefined
}
