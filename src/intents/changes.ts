import type { BagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import { isHiddenAtLast, lastMarks, toEffects } from './effects.ts'
import type { Intent, PutIntent } from './intent.ts'
import { orderOf } from './rules.ts'

/** What a set of intents changes in any listing. */
export interface Changes {
  /** Bags that do not show, although the listing may have them. */
  readonly hidden: ReadonlySet<BagId>
  /** Puts whose content the service does not have yet. */
  readonly pending: readonly PutIntent[]
  /** What confirmed puts made; the listing may have it already. */
  readonly made: readonly BagRecord[]
}

/** A put that the service has confirmed. */
type ConfirmedPut = PutIntent & { readonly bagId: BagId }

/** Works out what intents change in a listing. A put that another intent supersedes shows nothing. */
export function readIntents(intents: readonly Intent[]): Changes {
  const superseded = new Set(intents.flatMap(({ supersedes }) => supersedes))
  const live = intents.filter(
    (intent): intent is PutIntent => intent.kind === 'put' && !superseded.has(intent.id),
  )
  const marks = lastMarks(toEffects(intents))
  const isHiddenAfter = (put: ConfirmedPut): boolean =>
    (marks.hides.get(put.bagId) ?? '') > orderOf(put)
  return {
    hidden: new Set([...marks.hides.keys()].filter((bagId) => isHiddenAtLast(marks, bagId))),
    pending: live.filter((put) => !isConfirmed(put)),
    made: live
      .filter(isConfirmed)
      .filter((put) => !isHiddenAfter(put))
      .map(toRecord),
  }
}

function isConfirmed(put: PutIntent): put is ConfirmedPut {
  return put.phase === 'confirmed' && put.bagId !== undefined
}

/** The record that the listing is going to have for a confirmed put. */
function toRecord(put: ConfirmedPut): BagRecord {
  return {
    bagId: put.bagId,
    name: put.name,
    size: put.content.length,
    uploadedAtMs: put.confirmedAtMs ?? put.createdAtMs,
    description: put.description,
  }
}
