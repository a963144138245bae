import { backoffMs } from '../domain/backoff.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'

export interface RetrySettings {
  /** Repeats after the first try. */
  readonly retries: number
  readonly baseMs: number
  readonly maxMs: number
}

export interface RetryDependencies {
  readonly clock: Clock
  /** 0 to below 1. */
  readonly random: () => number
  /** Told before each wait. */
  readonly onWait: (error: DriveError, waitMs: number) => void
}

/** How a call may be repeated: `always`, or only while it is certain that it was not carried out. */
export type Repeatable = 'always' | 'until-done'

export interface RepeatedCall {
  readonly repeatable: Repeatable
  /** Asked after each wait: false when the call must not be made again. */
  readonly mayRepeat?: () => Promise<boolean>
  readonly signal: AbortSignal
}

const LONGEST_RETRY_AFTER_MS = 3_600_000

/** Runs `attempt`, again after a growing wait while its DriveError allows it. Rejects with the last error. */
export async function withRetry<T>(
  deps: RetryDependencies,
  settings: RetrySettings,
  call: RepeatedCall,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof DriveError)) throw error
      const waitMs = waitBefore(repeats, error, settings, deps.random)
      if (repeats >= repeatsFor(error, call.repeatable, settings.retries)) throw error
      if (waitMs === undefined) throw error
      deps.onWait(error, waitMs)
      await deps.clock.sleep(waitMs, call.signal)
      if ((await call.mayRepeat?.()) === false) throw error
    }
  }
}

/** Silence is not repeated: each time would add its whole limit to the wait of the caller. */
function repeatsFor(error: DriveError, repeatable: Repeatable, retries: number): number {
  if (repeatable === 'until-done' && error.facts.answerLost === true) return 0
  switch (error.code) {
    case 'unavailable':
    case 'rate-limited':
      return retries
    case 'server-error':
      return repeatable === 'always' ? retries : 0
    default:
      return 0
  }
}

/**
 * Exponential backoff with full jitter, on top of what the service asked for (`Retry-After`).
 * Undefined when it asked for more than `maxMs`: that wait is the caller's decision.
 */
function waitBefore(
  repeats: number,
  error: DriveError,
  { baseMs, maxMs }: RetrySettings,
  random: () => number,
): number | undefined {
  const asked = error.facts.retryAfterMs ?? 0
  if (asked > maxMs) return undefined
  const jitter = random() * backoffMs(repeats, { firstMs: baseMs, longestMs: maxMs })
  return Math.min(maxMs, asked + jitter)
}

/** Milliseconds of a `Retry-After` header (seconds or an HTTP date), an hour at most. */
export function parseRetryAfter(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs
  if (Number.isNaN(ms)) return undefined
  return Math.min(Math.max(0, ms), LONGEST_RETRY_AFTER_MS)
}
