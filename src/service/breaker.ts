import { backoffMs } from '../domain/backoff.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError, isDriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { CallOptions, StorageService } from './storage-service.ts'

interface BreakerSettings {
  /** How long calls fail at once after the service gave no answer; doubles while it stays dead. */
  readonly firstPauseMs: number
  readonly longestPauseMs: number
}

interface BreakerDeps {
  readonly clock: Clock
  readonly log: Logger
  /** Told when the service answers after it had been away for a while, or takes the token again. */
  readonly onBack?: () => void
}

/** One failure may be that of a single call; after more in a row the service was away. */
const AWAY_FAILURES = 2

const DEFAULTS: BreakerSettings = { firstPauseMs: 1_000, longestPauseMs: 10_000 }

/**
 * A service that is dead or silent costs its callers one deadline, and not one each. After a call
 * without any answer, others fail at once as that one did (`unavailable`, `timed-out`). After a
 * pause a single call is let through; when it gets an answer, so are all. Any answer counts, also a
 * refusal. One that goes on for longer than the longest pause, as a long upload does, does not keep
 * the next from being let through.
 */
export function withBreaker(
  service: StorageService,
  deps: BreakerDeps,
  settings: BreakerSettings = DEFAULTS,
): StorageService {
  const breaker = new Breaker(deps, settings)
  return {
    uploadFile: (source, options) =>
      breaker.call(options, (guarded) => service.uploadFile(source, guarded)),
    uploadFolder: (source, options) =>
      breaker.call(options, (guarded) => service.uploadFolder(source, guarded)),
    addById: (bagId, options) =>
      breaker.call(options, (guarded) => service.addById(bagId, guarded)),
    download: (bagId, options) =>
      breaker.call(options, (guarded) => service.download(bagId, guarded)),
    deleteBag: (bagId, options) =>
      breaker.call(options, (guarded) => service.deleteBag(bagId, guarded)),
    listFiles: (options) => breaker.look(options, (guarded) => service.listFiles(guarded)),
    getAccount: (options) => breaker.look(options, (guarded) => service.getAccount(guarded)),
    close: () => service.close(),
  }
}

interface Admission {
  /** True for a call that was let through to find out whether the service is back. */
  isTrial: boolean
}

class Breaker {
  readonly #deps: BreakerDeps
  readonly #settings: BreakerSettings
  /** What the last call without an answer ended with: others end with the same. */
  #found: DriveErrorCode = 'unavailable'
  /** Calls without an answer in a row. */
  #failures = 0
  #closedUntilMs = 0
  /** The trial that was let through last, while it goes on. */
  #trial: Admission | undefined
  /** So long it keeps others out. */
  #triedUntilMs = 0
  /** True when the token was refused for a call that a good token may always make. */
  #isRefused = false

  constructor(deps: BreakerDeps, settings: BreakerSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /** A call that changes nothing, and that a good token may always make. */
  async look<Options extends CallOptions, Result>(
    options: Options | undefined,
    task: (options: Options & CallOptions) => Promise<Result>,
  ): Promise<Result> {
    try {
      const result = await this.call(options, task)
      if (this.#isRefused) this.#deps.onBack?.()
      this.#isRefused = false
      return result
    } catch (error) {
      if (isDriveError(error, 'unauthorized')) this.#isRefused = true
      throw error
    }
  }

  /** Asks for admission at once, and again when the call has waited for its turn behind others. */
  async call<Options extends CallOptions, Result>(
    options: Options | undefined,
    task: (options: Options & CallOptions) => Promise<Result>,
  ): Promise<Result> {
    const admission: Admission = { isTrial: options?.isInPause === true }
    const onBegin = (): void => {
      this.#admit(admission)
      options?.onBegin?.()
    }
    try {
      this.#admit(admission)
      const result = await task({ ...options, onBegin } as Options & CallOptions)
      this.#answered()
      return result
    } catch (error) {
      if (isUnanswered(error)) this.#unanswered(error.code)
      else if (isDriveError(error) && error.facts.status !== undefined) this.#answered()
      throw error
    } finally {
      if (this.#trial === admission) this.#trial = undefined
    }
  }

  #admit(admission: Admission): void {
    if (this.#failures === 0 || admission.isTrial) return
    this.#refuseForNow()
    admission.isTrial = true
    this.#trial = admission
    this.#triedUntilMs = this.#deps.clock.now() + this.#settings.longestPauseMs
  }

  #refuseForNow(): void {
    const isTrying = this.#trial !== undefined && this.#isBefore(this.#triedUntilMs)
    if (!isTrying && !this.#isPausing) return
    throw new DriveError(this.#found, 'The service does not answer.', {
      notAsked: true,
      hint: 'It is tried again within seconds. What is cached can be read meanwhile.',
    })
  }

  get #isPausing(): boolean {
    return this.#isBefore(this.#closedUntilMs)
  }

  /** A clock that was set back must not make this last for ever. */
  #isBefore(endMs: number): boolean {
    const leftMs = endMs - this.#deps.clock.now()
    return leftMs > 0 && leftMs <= this.#settings.longestPauseMs
  }

  #answered(): void {
    const failures = this.#failures
    this.#failures = 0
    if (failures > 0) this.#deps.log.info({}, 'The service answers again.')
    if (failures >= AWAY_FAILURES) this.#deps.onBack?.()
  }

  #unanswered(code: DriveErrorCode): void {
    this.#found = code
    // Calls that were under way together found out the same thing.
    if (this.#isPausing) return
    const { firstPauseMs: firstMs, longestPauseMs: longestMs } = this.#settings
    const pause = backoffMs(this.#failures, { firstMs, longestMs })
    this.#failures += 1
    this.#closedUntilMs = this.#deps.clock.now() + pause
  }
}

/**
 * True when nothing came back: the request was not taken, or there was silence. A slow body of one
 * call says nothing of others, nor does a connection that broke once the request was there: that
 * took no time.
 */
function isUnanswered(error: unknown): error is DriveError {
  if (!isDriveError(error) || error.facts.status !== undefined) return false
  if (error.facts.notAsked === true) return false
  return error.code === 'timed-out' || (error.code === 'unavailable' && !mayBeDone(error))
}

function mayBeDone({ facts }: DriveError): boolean {
  return facts.answerLost === true
}
