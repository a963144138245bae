import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent } from './intent.ts'
import { sourceOf, type Intents } from './rules.ts'

const NOTHING: readonly Intent[] = []

/** Intents by id, by name, by bag and by what they take the place of, so that thousands of them stay cheap. */
export class IntentIndex implements Intents {
  readonly #byId = new Map<IntentId, Intent>()
  /** By growing id. */
  readonly #sorted: Intent[] = []
  readonly #byName = new Map<string, Set<IntentId>>()
  readonly #byBag = new Map<BagId, Set<IntentId>>()
  /** Superseded id -> the intent that superseded it. */
  readonly #successors = new Map<IntentId, IntentId>()
  /** What got its name later than its id. */
  readonly #placed = new Map<IntentId, IntentId>()
  /** Intents that were found damaged. */
  readonly #aside = new Set<IntentId>()
  /** Made when asked for; never changed, because callers keep it while they wait. */
  #all: readonly Intent[] | undefined

  get(id: IntentId): Intent | undefined {
    return this.#byId.get(id)
  }

  /** Oldest first. */
  intents(): readonly Intent[] {
    this.#all ??= this.#sorted.slice()
    return this.#all
  }

  named(name: string): readonly Intent[] {
    return this.#allOf(this.#byName.get(name))
  }

  ofBag(bagId: BagId): readonly Intent[] {
    return this.#allOf(this.#byBag.get(bagId))
  }

  #allOf(ids: ReadonlySet<IntentId> | undefined): readonly Intent[] {
    if (ids === undefined) return NOTHING
    return [...ids].sort().flatMap((id) => this.#byId.get(id) ?? [])
  }

  successorOf(id: IntentId): Intent | undefined {
    const successor = this.#successors.get(id)
    return successor === undefined ? undefined : this.#byId.get(successor)
  }

  /** True when no intent got its name after this time. */
  isLast(order: IntentId): boolean {
    const last = this.#sorted.at(-1)?.id ?? order
    return last <= order && [...this.#placed.values()].every((placed) => placed <= order)
  }

  isSetAside(id: IntentId): boolean {
    return this.#aside.has(id)
  }

  /** An intent is damaged, and what it promised unknown. */
  setAside(id: IntentId): void {
    this.#aside.add(id)
  }

  set(intent: Intent): void {
    const before = this.#byId.get(intent.id)
    this.#sorted.splice(this.#placeOf(intent.id), before === undefined ? 0 : 1, intent)
    if (before !== undefined) this.#unlink(before)
    this.#byId.set(intent.id, intent)
    this.#link(intent)
    this.#all = undefined
  }

  delete(id: IntentId): void {
    const intent = this.#byId.get(id)
    if (intent === undefined) return
    this.#sorted.splice(this.#placeOf(id), 1)
    this.#byId.delete(id)
    this.#unlink(intent)
    this.#all = undefined
  }

  #link(intent: Intent): void {
    const { id, name, supersedes, placed } = intent
    if (placed !== undefined) this.#placed.set(id, placed)
    addTo(this.#byName, name, id)
    for (const bagId of bagsOf(intent)) addTo(this.#byBag, bagId, id)
    for (const old of supersedes) this.#successors.set(old, id)
  }

  #unlink(intent: Intent): void {
    const { id, name, supersedes } = intent
    this.#placed.delete(id)
    removeFrom(this.#byName, name, id)
    for (const bagId of bagsOf(intent)) removeFrom(this.#byBag, bagId, id)
    for (const old of supersedes) {
      if (this.#successors.get(old) === id) this.#successors.delete(old)
    }
  }

  /** Where `id` is, or belongs. */
  #placeOf(id: IntentId): number {
    let low = 0
    let high = this.#sorted.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#sorted[middle]?.id ?? id) < id) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Bags that an intent was given, takes the place of, or gets its content from. */
function bagsOf(intent: Intent): readonly BagId[] {
  if (intent.kind === 'delete') return intent.replaces
  const source = sourceOf(intent)
  const given = intent.bagId === undefined ? [] : [intent.bagId]
  return [...intent.replaces, ...given, ...(source === undefined ? [] : [source])]
}

function addTo<Key>(all: Map<Key, Set<IntentId>>, key: Key, id: IntentId): void {
  const ids = all.get(key)
  if (ids === undefined) all.set(key, new Set([id]))
  else ids.add(id)
}

function removeFrom<Key>(all: Map<Key, Set<IntentId>>, key: Key, id: IntentId): void {
  const ids = all.get(key)
  ids?.delete(id)
  if (ids?.size === 0) all.delete(key)
}
