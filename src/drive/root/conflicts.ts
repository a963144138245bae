import type { Clock } from '../../domain/clock.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { encodeName } from '../../domain/names.ts'
import type { Base } from '../../intents/base.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Entries } from './entries.ts'

interface ConflictsDeps {
  readonly entries: Entries
  readonly outbox: Pick<Outbox, 'put'>
  readonly clock: Clock
  readonly log: Logger
}

/** A name that was changed here and on another machine at the same time. */
export interface Conflict {
  /** The name, as the service has it. */
  readonly name: string
  /** The other machine's version. */
  readonly bagId: BagId
  /** In milliseconds since the epoch. */
  readonly atMs: number
}

/** A conflict that can still be seen. */
export interface ShownConflict extends Conflict {
  /** The name that the other machine's version has in the drive. */
  readonly other: string
}

/** As many as a person may want to read. */
const MOST = 100

/** Notices when a write takes a name from a version that it was not made from; that version stays. */
export class Conflicts {
  readonly #deps: ConflictsDeps
  readonly #listeners = new Set<(conflict: ShownConflict) => void>()
  /** Newest last; those whose bag shows no more are dropped by `list`. */
  #all: Conflict[] = []

  constructor(deps: ConflictsDeps) {
    this.#deps = deps
  }

  /** The bag that has a name now, when new content made from `base` does not take its place. */
  find(name: string, base: Base): BagId | undefined {
    const { entries, outbox } = this.#deps
    const entry = entries.tree().get(encodeName(name))
    if (entry?.kind !== 'bag') return undefined
    const { bagId } = entry.record
    const isOurs = base.supersedes.some((id) => outbox.put(id)?.bagId === bagId)
    return isOurs || base.replaces.includes(bagId) ? undefined : bagId
  }

  /** Tells of a conflict: to be called when the new content is promised. */
  note(name: string, bagId: BagId): void {
    const conflict = { name, bagId, atMs: this.#deps.clock.now() }
    this.#all = [...this.#all.filter((each) => each.bagId !== bagId), conflict].slice(-MOST)
    const shown = this.#show(conflict)
    if (shown === undefined) return
    this.#deps.log.warn({ bagId }, describeConflict(shown))
    for (const listener of this.#listeners) listener(shown)
  }

  /** Those whose other version is still there, oldest first. */
  list(): readonly ShownConflict[] {
    const shown = this.#all.flatMap((each) => this.#show(each) ?? [])
    const left = new Set(shown.map(({ bagId }) => bagId))
    this.#all = this.#all.filter(({ bagId }) => left.has(bagId))
    return shown
  }

  /** Calls `listener` of each new one; returns the function that ends this. */
  onConflict(listener: (conflict: ShownConflict) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #show(conflict: Conflict): ShownConflict | undefined {
    const other = this.#deps.entries.tree().shownAs(conflict.bagId)
    return other === undefined ? undefined : { ...conflict, other }
  }
}

/** One sentence, for the user. */
export function describeConflict({ name, other }: Pick<ShownConflict, 'name' | 'other'>): string {
  return `${name} was changed on another machine; that version is ${other}`
}
