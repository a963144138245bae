import { withAside } from '../domain/sentences.ts'
import type { Intent, IntentFailure } from '../intents/intent.ts'
import { bagsToDelete, isAnswered, isDone } from '../intents/rules.ts'

/**
 * The state of an intent in plain words, the same in `status`, `user.bagfs.state`, `bagfs outbox` and
 * the log. `percent` is given while it is being sent.
 */
export function stateOfIntent(intent: Intent, percent: number | undefined): string {
  if (intent.phase === 'confirmed') return stateOfConfirmed(intent)
  if (intent.phase === 'local') return 'local only'
  if (intent.phase === 'held') return stateOfHeld(intent)
  if (percent !== undefined) return `uploading ${percent} %`
  if (isAnswered(intent)) return stateOfAnswered(intent)
  return intent.failure === undefined ? 'waiting' : describeFailed(intent.failure)
}

/** What is held can fail, too: when it was to be sent before its time. */
function stateOfHeld(intent: Intent): string {
  if (intent.failure !== undefined) return describeFailed(intent.failure)
  if (intent.kind === 'delete') return 'waiting'
  return isCollecting(intent) ? 'waits for the folder to rest' : 'held: a step of a save'
}

function isCollecting(intent: Intent): boolean {
  return intent.kind === 'put' && intent.content.from === 'folder'
}

/** The service says that it has the content, and nothing has shown that yet. */
function stateOfAnswered({ failure }: Intent): string {
  const sent = 'sent; not seen at the service yet'
  return failure === undefined ? sent : `${sent}: ${describeFailed(failure)}`
}

/** The service has the content, though what it replaces may not be deleted yet. */
function stateOfConfirmed(intent: Intent): string {
  if (isDone(intent)) return 'stored'
  if (intent.failure === undefined) {
    return bagsToDelete(intent).length === 0 ? 'stored' : 'stored; the old version is being deleted'
  }
  return `stored; the old version is still there: ${describeFailed(intent.failure)}`
}

/** `failed: The account is full (will be tried again)` */
export function describeFailed({ message, waitsForUser }: IntentFailure): string {
  return `failed: ${withAside(message, waitsForUser ? 'waits for you' : 'will be tried again')}`
}

/** Whole percent of what is sent, 100 at most. */
export function percentOf(sent: {
  readonly sentBytes: number
  readonly totalBytes: number
}): number {
  if (sent.totalBytes === 0) return 0
  return Math.floor((100 * Math.min(sent.sentBytes, sent.totalBytes)) / sent.totalBytes)
}
