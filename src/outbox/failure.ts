import { backoffMs } from '../domain/backoff.ts'
import { DriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { Intent, IntentFailure } from '../intents/intent.ts'

/** The service will not take it until the person changes something. */
const WAITS_FOR_USER: ReadonlySet<DriveErrorCode> = new Set([
  'bad-request',
  'rejected',
  'too-large',
  'bad-name',
  'name-too-long',
  'not-found',
])

/** Nothing but the service itself was in the way. */
const WANT_OF_SERVICE: ReadonlySet<DriveErrorCode> = new Set([
  'unavailable',
  'timed-out',
  'unauthorized',
])

/** True for a change that can be sent as soon as the service, or its token, is back. */
export function failedForWantOfService(intent: Intent | undefined): boolean {
  return intent?.failure !== undefined && WANT_OF_SERVICE.has(intent.failure.code)
}

/** True for a change that the service had no room for; it is sent once there is some. */
export function failedForWantOfRoom(intent: Intent | undefined): boolean {
  return intent?.failure?.code === 'no-space' && intent.phase !== 'confirmed'
}

/** True for content that takes room of the account once it is sent, and that can be sent as things are. */
export function holdsRoom(intent: Intent): boolean {
  return (intent.phase === 'waiting' || intent.phase === 'held') && !failedForWantOfRoom(intent)
}

/** Describes a failed try for the outbox, `status` and `user.bagfs.state`. */
export function describeFailure(
  error: unknown,
  before: IntentFailure | undefined,
  nowMs: number,
): IntentFailure {
  const known = error instanceof DriveError
  return {
    code: known ? error.code : 'local-io',
    message: error instanceof Error ? error.message : String(error),
    atMs: nowMs,
    tries: (before?.tries ?? 0) + 1,
    waitsForUser: known && WAITS_FOR_USER.has(error.code),
  }
}

/** Wait before try number `tries + 1`: exponential with full jitter, never under what the service asked for. */
export function waitBeforeNext(
  tries: number,
  retryAfterMs: number | undefined,
  settings: { readonly retryBaseMs: number; readonly retryMaxMs: number },
  random: () => number,
): number {
  const { retryBaseMs: firstMs, retryMaxMs: longestMs } = settings
  const ceiling = backoffMs(tries - 1, { firstMs, longestMs })
  return Math.max(Math.ceil(random() * ceiling), retryAfterMs ?? 0)
}
