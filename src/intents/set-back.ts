import type { Intent } from './intent.ts'

/** No change is held for longer. */
const LONGEST_HOLD_MS = 3_600_000

/**
 * An intent without times that are to come, as a clock that was ahead and set back since has told them: what was done by then
 * counts as done now. Else what is confirmed would hide what other machines do until that time. Answers the same object
 * where nothing changes.
 */
export function notToCome(intent: Intent, nowMs: number): Intent {
  const { createdAtMs, answeredAtMs, confirmedAtMs, heldUntilMs } = intent
  const sentAtMs = intent.kind === 'put' ? intent.sentAtMs : undefined
  const isPast = [createdAtMs, answeredAtMs, confirmedAtMs, sentAtMs].every(
    (atMs) => atMs === undefined || atMs <= nowMs,
  )
  const isHeld = heldUntilMs !== undefined && heldUntilMs > nowMs + LONGEST_HOLD_MS
  if (isPast && !isHeld) return intent
  const past = (atMs: number): number => Math.min(atMs, nowMs)
  return {
    ...intent,
    createdAtMs: past(createdAtMs),
    ...(answeredAtMs === undefined ? {} : { answeredAtMs: past(answeredAtMs) }),
    ...(confirmedAtMs === undefined ? {} : { confirmedAtMs: past(confirmedAtMs) }),
    ...(sentAtMs === undefined ? {} : { sentAtMs: past(sentAtMs) }),
    ...(isHeld ? { heldUntilMs: nowMs } : {}),
  }
}
