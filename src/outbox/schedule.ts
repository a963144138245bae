import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../domain/intent.ts'

/** True when nothing is left to do at the service for this intent. */
export function isFinished(intent: Intent): boolean {
  if (intent.phase !== 'confirmed') return false
  return intent.kind === 'delete' || intent.replacedAreDeleted === true
}

/** True when this intent is sent by itself once its time has come. */
export function isToSend(intent: Intent): boolean {
  return intent.phase !== 'local' && intent.phase !== 'held' && !isFinished(intent)
}

/** True when another try cannot help until the person does something. */
export function isForUser(intent: Intent): boolean {
  return intent.failure?.waitsForUser === true
}

/** What is known of an intent beside itself. */
interface Surroundings {
  readonly sameName: readonly Intent[]
  isRunning(id: IntentId): boolean
  isSuperseded(id: IntentId): boolean
}

/**
 * Ids of the intents that must end before `intent` may be sent: those of the same name made earlier,
 * so that the service sees changes of a name in their order, and what it takes the place of while
 * that is on its way. What waits for the user, or for its successor, holds nobody up.
 */
export function blockersOf(intent: Intent, around: Surroundings): readonly IntentId[] {
  const isBlocking = (other: Intent): boolean =>
    other.id < intent.id &&
    isToSend(other) &&
    !isForUser(other) &&
    !intent.supersedes.includes(other.id) &&
    (!around.isSuperseded(other.id) || around.isRunning(other.id))
  return [
    ...around.sameName.filter(isBlocking).map(({ id }) => id),
    ...intent.supersedes.filter((id) => around.isRunning(id)),
  ]
}

/** When a held put or a delayed delete may be sent, in milliseconds since the epoch; 0 is at once. */
export function dueAtMs(intent: Intent): number {
  if (intent.phase === 'held') return intent.heldUntilMs ?? Infinity
  return intent.kind === 'delete' ? (intent.notBeforeMs ?? 0) : 0
}

/** A held change whose time has come becomes one to send. */
export function publish<Kind extends Intent>(intent: Kind): Kind {
  const copy: { heldUntilMs?: number } & Kind = { ...intent, phase: 'waiting' as const }
  delete copy.heldUntilMs
  return copy
}

/** The same intent as if it had never been tried. */
export function withoutFailure<Kind extends Intent>(intent: Kind): Kind {
  const copy: { failure?: unknown } & Kind = { ...intent }
  delete copy.failure
  return copy
}
