import type { BagId, IntentId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import { isHiddenAtLast, lastMarks, toEffects } from './effects.ts'
import type { Intent, PutIntent } from './intent.ts'
import { isUnproven, orderOf } from './rules.ts'

/** What a set of intents changes in any listing. */
export interface Changes {
  /** Bags that do not show, although the listing may have them. */
  readonly hidden: ReadonlySet<BagId>
  /** Intents that others take the place of. */
  readonly superseded: ReadonlySet<IntentId>
  /** Bags that some intent hides, or was given. */
  readonly concerned: ReadonlySet<BagId>
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
  const isSentAgain = findSentAgain(intents)
  return {
    hidden: new Set([...marks.hides.keys()].filter((bagId) => isHiddenAtLast(marks, bagId))),
    superseded,
    concerned: new Set([...marks.hides.keys(), ...marks.given.keys()]),
    pending: live.filter((put) => !isConfirmed(put)),
    made: live
      .filter(isConfirmed)
      .filter((put) => !isHiddenAfter(put) && !isSentAgain(put))
      .map(toRecord),
  }
}

function isConfirmed(put: PutIntent): put is ConfirmedPut {
  return put.phase === 'confirmed' && put.bagId !== undefined
}

/**
 * Tells the puts whose bag a later one may have stored anew. That sends the same content under the same name. It has the
 * id of the bag, or the bag did not show when it was made. What took the bag away in between leaves it once its id is
 * given again.
 */
function findSentAgain(intents: readonly Intent[]): (put: ConfirmedPut) => boolean {
  const unproven = new Map<string, PutIntent[]>()
  for (const put of intents.filter(isUnproven)) {
    const key = keyOf(put)
    if (key === undefined) continue
    const others = unproven.get(key)
    if (others === undefined) unproven.set(key, [put])
    else others.push(put)
  }
  return (put) => {
    if (unproven.size === 0) return false
    const others = unproven.get(keyOf(put) ?? '') ?? []
    return others.some(
      (other) =>
        orderOf(other) > orderOf(put) &&
        (other.bagId === put.bagId || other.namesakes?.includes(put.bagId) === false),
    )
  }
}

/** Of content and name; none where the content is not known yet. */
function keyOf({ name, content }: PutIntent): string | undefined {
  return content.from === 'staged' ? `${content.sha256}/${name}` : undefined
}

/** The record that the listing is going to have for a put; undefined for one that is not confirmed. */
export function confirmedRecord(put: PutIntent): BagRecord | undefined {
  return isConfirmed(put) ? toRecord(put) : undefined
}

/** The record that the listing is going to have for a confirmed put. */
function toRecord(put: ConfirmedPut): BagRecord {
  return {
    bagId: put.bagId,
    name: put.name,
    size: put.content.length,
    uploadedAtMs: put.answeredAtMs ?? put.confirmedAtMs ?? put.createdAtMs,
    description: put.description,
  }
}
