import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent, PutIntent } from '../domain/intent.ts'
import type { BagRecord } from '../domain/record.ts'

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

/**
 * Works out what intents change. A bag is hidden by what replaces or deletes it, unless a later put
 * was given the same id again (equal content may have an equal id). A put that another intent
 * supersedes shows nothing, and a bag that it was given goes the way of what it replaces.
 */
export function readIntents(intents: readonly Intent[]): Changes {
  const superseders = findSuperseders(intents)
  const live = intents.filter(
    (intent): intent is PutIntent => intent.kind === 'put' && !superseders.has(intent.id),
  )
  const confirmed = live.filter(isConfirmed)
  const hiddenBy = findHidden(intents, superseders)
  const givenBy = new Map<BagId, IntentId>()
  for (const put of confirmed) keepLatest(givenBy, put.bagId, put.id)
  const isHiddenAfter = (bagId: BagId, id: IntentId): boolean => (hiddenBy.get(bagId) ?? '') > id
  return {
    hidden: new Set(
      [...hiddenBy].filter(([bagId, id]) => !((givenBy.get(bagId) ?? '') > id)).map(([bag]) => bag),
    ),
    pending: live.filter((put) => !isConfirmed(put)),
    made: confirmed.filter((put) => !isHiddenAfter(put.bagId, put.id)).map(toRecord),
  }
}

function isConfirmed(put: PutIntent): put is ConfirmedPut {
  return put.phase === 'confirmed' && put.bagId !== undefined
}

function findSuperseders(intents: readonly Intent[]): ReadonlyMap<IntentId, Intent> {
  const superseders = new Map<IntentId, Intent>()
  for (const intent of intents) for (const id of intent.supersedes) superseders.set(id, intent)
  return superseders
}

/** For each bag the latest intent that hides it. A put does not hide the bag it was given. */
function findHidden(
  intents: readonly Intent[],
  superseders: ReadonlyMap<IntentId, Intent>,
): ReadonlyMap<BagId, IntentId> {
  const hidden = new Map<BagId, IntentId>()
  const hide = (bagId: BagId, intent: Intent): void => {
    if (intent.kind === 'put' && intent.bagId === bagId) return
    keepLatest(hidden, bagId, intent.id)
  }
  for (const intent of intents) {
    for (const bagId of intent.replaces) hide(bagId, intent)
    const superseder = superseders.get(intent.id)
    if (superseder !== undefined && intent.kind === 'put' && intent.bagId !== undefined) {
      hide(intent.bagId, superseder)
    }
  }
  return hidden
}

function keepLatest(map: Map<BagId, IntentId>, bagId: BagId, id: IntentId): void {
  const known = map.get(bagId)
  if (known === undefined || known < id) map.set(bagId, id)
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
