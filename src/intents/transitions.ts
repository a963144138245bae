import { withChanges, type AttributeChanges } from '../domain/attributes.ts'
import type { BagId } from '../domain/ids.ts'
import { withDeleted, withUploads } from './claims.ts'
import { without } from './fields.ts'
import type { BagTime, DeleteIntent, Intent, IntentFailure, PutIntent } from './intent.ts'
import { isTaken } from './rules.ts'

/** A change of puts as one of all intents: a delete stays as it is. */
export function ofPut(change: (put: PutIntent) => PutIntent): (intent: Intent) => Intent {
  return (intent) => (intent.kind === 'put' ? change(intent) : intent)
}

/** A held change becomes one to send. */
export function publish<Kind extends Intent>(intent: Kind): Kind {
  return intent.phase === 'held' ? without({ ...intent, phase: 'waiting' }, 'heldUntilMs') : intent
}

/** As if it had never been tried. */
export function withoutFailure<Kind extends Intent>(intent: Kind): Kind {
  return without(intent, 'failure', 'disproofs')
}

/** A try failed. With `mayHaveArrived` the listing is asked before the next one. */
export function failed(
  intent: Intent,
  failure: IntentFailure,
  { mayHaveArrived }: { readonly mayHaveArrived: boolean },
): Intent {
  const isSent = mayHaveArrived || isTaken(intent)
  return { ...(isSent ? intent : without(intent, 'sentAtMs')), failure }
}

/** An upload begins: from now on its answer may be lost. A put that was held since its try began waits no more. */
export function sent(put: PutIntent, nowMs: number): PutIntent {
  return { ...publish(put), sentAtMs: nowMs }
}

/** A put gets its name now: it comes after what was `placed` before it, and these bags have the name already. */
export function named(put: PutIntent, at: Pick<PutIntent, 'placed' | 'namesakes'>): PutIntent {
  return { ...put, ...at }
}

/** Content of a bag was fetched to the outbox. */
export function staged(put: PutIntent, length: number, sha256: string): PutIntent {
  return { ...put, content: { from: 'staged', length, sha256 } }
}

/** The service answered an upload with this id; nothing has proven yet that there is such a bag. */
export function answered(
  put: PutIntent,
  { bagId, isAtRisk }: { readonly bagId: BagId; readonly isAtRisk: boolean },
  nowMs: number,
): PutIntent {
  const times = { answeredAtMs: nowMs, confirmedAtMs: nowMs }
  const bag = { bagId, ...(isAtRisk ? { isAtRisk } : {}) }
  const done = { ...put, phase: 'waiting' as const, ...bag, ...times }
  return without(done, 'failure', 'heldUntilMs')
}

/** No bag has the id that was answered: the put is to be sent again. */
export function unanswered(put: PutIntent): PutIntent {
  return without(
    put,
    ...(['bagId', 'uploadedAtMs', 'isAtRisk', 'lookAtMs'] as const),
    ...(['answeredAtMs', 'confirmedAtMs'] as const),
  )
}

/** As `unanswered`, where the bag of that id holds something else than was sent. */
export function disproven(put: PutIntent): PutIntent {
  return { ...unanswered(put), disproofs: (put.disproofs ?? 0) + 1 }
}

/** The service has the content, as this bag. */
export function confirmed(put: PutIntent, bagId: BagId, nowMs: number): PutIntent {
  const times = { answeredAtMs: put.answeredAtMs ?? nowMs, confirmedAtMs: nowMs }
  const done = { ...put, bagId, phase: 'confirmed' as const, ...times }
  return without(withoutFailure({ ...done, ...withUploads(done) }), 'isAtRisk')
}

/** The bag of a confirmed put had its id before, so a DELETE from then may take it. */
export function watched(put: PutIntent, lookAtMs: number): PutIntent {
  return put.phase === 'confirmed' ? { ...put, lookAtMs } : put
}

/** Nothing takes the bag of a put any more. */
export function unwatched(put: PutIntent): PutIntent {
  return without(put, 'lookAtMs')
}

/** The bag of a confirmed put was taken by a DELETE from before: it is stored once more. */
export function takenAway(put: PutIntent): PutIntent {
  const timesTaken = (put.timesTaken ?? 0) + 1
  return { ...without(unanswered(put), 'replacedAreDeleted'), phase: 'waiting', timesTaken }
}

/** The bag that a put was given is about to be deleted by a change that takes its place, and was uploaded then. */
export function seenUploaded(put: PutIntent, { bagId, atMs }: BagTime): PutIntent {
  return put.bagId === bagId ? { ...put, uploadedAtMs: atMs } : put
}

/** Nothing that a confirmed put takes the place of is left to delete; `gone` are those that are deleted. */
export function replacedDeleted(
  put: PutIntent,
  nowMs: number,
  gone: readonly BagTime[],
): PutIntent {
  const confirmedAtMs = put.replaces.length === 0 ? {} : { confirmedAtMs: nowMs }
  const done = { ...put, replacedAreDeleted: true, ...confirmedAtMs }
  return withoutFailure(withDeleted(done, gone))
}

/** Nothing of a delete is left to delete; `gone` are those that are deleted. */
export function deleted(
  intent: DeleteIntent,
  nowMs: number,
  gone: readonly BagTime[],
): DeleteIntent {
  const done = { ...intent, phase: 'confirmed' as const, confirmedAtMs: nowMs }
  return withoutFailure(withDeleted(done, gone))
}

export function described(put: PutIntent, description: string): PutIntent {
  return { ...put, description }
}

export function withAttributes(put: PutIntent, changes: AttributeChanges): PutIntent {
  return { ...put, ...withChanges(put, changes) }
}
