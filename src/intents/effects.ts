import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent } from './intent.ts'
import { orderOf } from './rules.ts'

const NONE: ReadonlySet<never> = new Set()

/** What one intent does to the tree. */
export interface Effect {
  readonly intent: Intent
  readonly id: IntentId
  /** Which of two came first. */
  readonly order: IntentId
  readonly confirmedAtMs: number
  /** The bag that a put was given. */
  readonly given: BagId | undefined
  /** Bags that it hides: those it replaces, and those that puts in its place before were given. */
  readonly hides: ReadonlySet<BagId>
  /** Bags of `hides` that it does not name itself, with the put that does. */
  readonly throughOthers: ReadonlyMap<IntentId, BagId>
}

/** The order of the intent that is the last, or the first, to hide or to have been given a bag. */
export interface Marks {
  readonly hides: ReadonlyMap<BagId, IntentId>
  readonly given: ReadonlyMap<BagId, IntentId>
}

/**
 * Works out what intents do. A bag is hidden by what replaces or deletes it. A bag that a put was given goes
 * the way of what it replaces once another intent supersedes the put. A put does not hide the bag it was given:
 * equal content may have an equal id.
 */
export function toEffects(intents: readonly Intent[]): readonly Effect[] {
  const givenTo = new Map<IntentId, BagId>()
  for (const intent of intents) {
    if (intent.kind === 'put' && intent.bagId !== undefined) givenTo.set(intent.id, intent.bagId)
  }
  return intents.map((intent) => {
    const given = givenTo.get(intent.id)
    const confirmedAtMs = intent.confirmedAtMs ?? Infinity
    const throughOthers = new Map<IntentId, BagId>()
    for (const id of intent.supersedes) {
      const bagId = givenTo.get(id)
      if (bagId === undefined || bagId === given || intent.replaces.includes(bagId)) continue
      throughOthers.set(id, bagId)
    }
    const hidden = [...intent.replaces, ...throughOthers.values()].filter((each) => each !== given)
    const hides = hidden.length === 0 ? NONE : new Set(hidden)
    return {
      intent,
      id: intent.id,
      order: orderOf(intent),
      confirmedAtMs,
      given,
      hides,
      throughOthers,
    }
  })
}

/** The last intent of each bag. */
export function lastMarks(effects: Iterable<Effect>): Marks {
  return findMarks(effects, (one, other) => one > other)
}

/** The first intent of each bag. */
export function firstMarks(effects: Iterable<Effect>): Marks {
  return findMarks(effects, (one, other) => one < other)
}

/** True when no intent was given the bag after the one that hides it. */
export function isHiddenAtLast(marks: Marks, bagId: BagId): boolean {
  return (marks.hides.get(bagId) ?? '') > (marks.given.get(bagId) ?? '')
}

function findMarks(
  effects: Iterable<Effect>,
  wins: (one: IntentId, other: IntentId) => boolean,
): Marks {
  const marks = { hides: new Map<BagId, IntentId>(), given: new Map<BagId, IntentId>() }
  const note = (map: Map<BagId, IntentId>, bagId: BagId, order: IntentId): void => {
    const known = map.get(bagId)
    if (known === undefined || wins(order, known)) map.set(bagId, order)
  }
  for (const { order, given, hides } of effects) {
    if (given !== undefined) note(marks.given, given, order)
    for (const bagId of hides) note(marks.hides, bagId, order)
  }
  return marks
}
