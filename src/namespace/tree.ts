import { isDeepStrictEqual } from 'node:util'
import type { BagId } from '../domain/ids.ts'
import type { DeleteIntent, Intent, PutIntent } from '../intents/intent.ts'
import { encodeName } from '../domain/names.ts'
import type { BagRecord } from '../domain/record.ts'
import { confirmedRecord, readIntents, type Changes } from '../intents/changes.ts'
import type { Candidate, Entry } from './entry.ts'
import { clashKeyOf, nameClashing } from './name-clashes.ts'
import { indexListing, type ListingIndex } from './listing-index.ts'
import { findSentBags } from './sent.ts'

/** The root of the drive: every entry under exactly one shown name. */
export interface Tree {
  get(shown: string): Entry | undefined
  /** The entry that a typed name means: one shown so, else the one whose service name it is. */
  resolve(typed: string): Entry | undefined
  entries(): Iterable<Entry>
  /** Entries whose names depend on one another, that of `shown` among them. */
  relatives(shown: string): readonly Entry[]
  /** How many visible entries are this bag. */
  usesOf(bagId: BagId): number
  /** The name under which a bag shows, if it does; one of them where it has several. */
  shownAs(bagId: BagId): string | undefined
  readonly size: number
  /**
   * Follows a change that concerns nothing else (`changeOfItsOwn`): of a put whose name nothing has, or of a delete of what
   * is listed once. False, with nothing changed, for any other change: then the tree is to be built anew.
   */
  follow(before: Intent | undefined, after: Intent): boolean
}

export type { Entry } from './entry.ts'
export { indexListing, type ListingIndex } from './listing-index.ts'

type Overlay = Map<string, ReadonlyMap<string, Entry>>

/**
 * The tree of a listing and the intents on top of it. It is a pure function, so that after a crash
 * the same intents give the same tree. Without an index there is no listing yet. Costs what the
 * intents touch, not what the listing holds.
 */
export function buildTree(listed: ListingIndex | undefined, intents: readonly Intent[]): Tree {
  return new BuiltTree(listed ?? indexListing([]), intents)
}

class BuiltTree implements Tree {
  readonly #index: ListingIndex
  readonly #changes: Changes
  readonly #added: readonly Candidate[]
  readonly #overlay: Overlay
  #size: number
  #all: readonly Entry[] | undefined
  /** Of puts that were followed. */
  readonly #confirmedSince = new Map<BagId, BagRecord>()
  /** By deletes that were followed. */
  readonly #hiddenSince = new Set<BagId>()

  constructor(index: ListingIndex, intents: readonly Intent[]) {
    this.#index = index
    this.#changes = withSent(readIntents(intents), findSentBags(index, intents))
    this.#added = listAdded(index, this.#changes)
    this.#overlay = makeOverlay(index, this.#changes, this.#added)
    this.#size = index.size
    for (const [key, named] of this.#overlay) this.#size += named.size - index.countIn(key)
  }

  get size(): number {
    return this.#size
  }

  get(shown: string): Entry | undefined {
    const key = clashKeyOf(shown)
    const named = this.#overlay.get(key)
    return named === undefined ? this.#index.get(key, shown) : named.get(shown)
  }

  resolve(typed: string): Entry | undefined {
    return this.get(typed) ?? this.get(encodeName(typed))
  }

  relatives(shown: string): readonly Entry[] {
    return [...entriesOf(this.#index, this.#overlay, clashKeyOf(shown))]
  }

  entries(): Iterable<Entry> {
    return (this.#all ??= [...listEntries(this.#index, this.#overlay)])
  }

  usesOf(bagId: BagId): number {
    if (this.#hiddenSince.has(bagId)) return 0
    const added = [...this.#added, ...this.#recent(bagId)]
    return countUses(this.#index, this.#changes, added, bagId)
  }

  shownAs(bagId: BagId): string | undefined {
    const index = this.#index
    for (const record of this.#recordsOf(bagId)) {
      const entries = entriesOf(index, this.#overlay, clashKeyOf(index.plainOf(record)))
      for (const entry of entries) if (entry.record?.bagId === bagId) return entry.shown
    }
    return undefined
  }

  follow(before: Intent | undefined, after: Intent): boolean {
    if (after.kind === 'delete') return before !== undefined || this.#followDelete(after)
    return before?.kind !== 'delete' && this.#followPut(before, after)
  }

  #followPut(before: PutIntent | undefined, after: PutIntent): boolean {
    const index = this.#index
    const plain = encodeName(after.name)
    const key = clashKeyOf(plain)
    if (this.#changes.superseded.has(after.id) || index.candidatesIn(key).length > 0) return false
    const named = this.#overlay.get(key)
    if (isShownAs(named, before, after)) return true
    if (!isAllOfGroup(named, before)) return false
    const record = confirmedRecord(after)
    if (record !== undefined) {
      if (this.#isKnown(record.bagId) || index.plainOf(record) !== plain) return false
      this.#confirmedSince.set(record.bagId, record)
    }
    const candidate: Candidate =
      record === undefined ? { kind: 'pending', plain, intent: after } : index.toCandidate(record)
    this.#overlay.set(key, nameClashing([candidate]))
    if (before === undefined) this.#size += 1
    this.#all = undefined
    return true
  }

  /** One of a bag that shows once, alone of its clash group. */
  #followDelete({ replaces }: DeleteIntent): boolean {
    const [bagId, ...moreBags] = replaces
    if (bagId === undefined || moreBags.length > 0) return false
    const key = this.#groupAlone(bagId)
    if (key === undefined) return false
    this.#overlay.set(key, new Map())
    this.#hiddenSince.add(bagId)
    this.#size -= 1
    this.#all = undefined
    return true
  }

  /** The clash group in which a bag is alone, where it is in no other one. */
  #groupAlone(bagId: BagId): string | undefined {
    const index = this.#index
    const listed = index.recordsOf(bagId)
    const [plain, ...morePlain] = new Set(this.#recordsOf(bagId).map((one) => index.plainOf(one)))
    if (plain === undefined || morePlain.length > 0 || listed.length > 1) return undefined
    const key = clashKeyOf(plain)
    const [only, ...others] = entriesOf(index, this.#overlay, key)
    return only?.record?.bagId === bagId && others.length === 0 ? key : undefined
  }

  /** Of the listing and of what was stored here. */
  #recordsOf(bagId: BagId): readonly BagRecord[] {
    const made = this.#changes.made.filter((record) => record.bagId === bagId)
    const since = this.#recent(bagId).map(({ record }) => record)
    return [...this.#index.recordsOf(bagId), ...made, ...since]
  }

  #isKnown(bagId: BagId): boolean {
    const isListed = this.#index.recordsOf(bagId).length > 0
    return isListed || this.#changes.concerned.has(bagId) || this.#confirmedSince.has(bagId)
  }

  #recent(bagId: BagId): Extract<Candidate, { kind: 'bag' }>[] {
    const record = this.#confirmedSince.get(bagId)
    return record === undefined ? [] : [{ kind: 'bag', plain: this.#index.plainOf(record), record }]
  }
}

/** Of a clash group. */
function entriesOf(index: ListingIndex, overlay: Overlay, key: string): Iterable<Entry> {
  return overlay.get(key)?.values() ?? index.entriesIn(key)
}

/** True for a put that was confirmed before, and shows as the same bag. */
function isShownAs(
  named: ReadonlyMap<string, Entry> | undefined,
  before: PutIntent | undefined,
  after: PutIntent,
): boolean {
  const [only, ...others] = named?.values() ?? []
  const was = before === undefined ? undefined : confirmedRecord(before)
  const record = confirmedRecord(after)
  if (was === undefined || record === undefined || others.length > 0) return false
  return only?.record?.bagId === was.bagId && isDeepStrictEqual(was, record)
}

/** True when nothing but this put, which the service does not have yet, is in a clash group; nothing at all without one. */
function isAllOfGroup(
  named: ReadonlyMap<string, Entry> | undefined,
  put: PutIntent | undefined,
): boolean {
  if (put === undefined) return named === undefined || named.size === 0
  const [only, ...others] = named?.values() ?? []
  return others.length === 0 && only?.kind === 'pending' && only.intent === put
}

/** A bag that a confirmed put was given is known, and shows. */
function withSent(changes: Changes, sent: readonly BagId[]): Changes {
  if (sent.length === 0) return changes
  const known = new Set(changes.made.map(({ bagId }) => bagId))
  const unknown = sent.filter((bagId) => !known.has(bagId))
  return { ...changes, hidden: new Set([...changes.hidden, ...unknown]) }
}

/** What the intents add to the listing. A bag that is listed under its name is not added again. */
function listAdded(index: ListingIndex, { pending, made }: Changes): readonly Candidate[] {
  const isListed = (one: (typeof made)[number]): boolean =>
    index.recordsOf(one.bagId).some((record) => index.plainOf(record) === index.plainOf(one))
  return [
    ...pending.map((intent): Candidate => {
      return { kind: 'pending', plain: encodeName(intent.name), intent }
    }),
    ...made.filter((record) => !isListed(record)).map((record) => index.toCandidate(record)),
  ]
}

/** The clash groups that the intents touch, named anew. */
function makeOverlay(
  index: ListingIndex,
  { hidden }: Changes,
  added: readonly Candidate[],
): Overlay {
  const touched = new Map<string, Candidate[]>()
  const touch = (plain: string): Candidate[] => {
    const key = clashKeyOf(plain)
    let members = touched.get(key)
    if (members === undefined) {
      members = index.candidatesIn(key).filter((one) => !isHidden(one, hidden))
      touched.set(key, members)
    }
    return members
  }
  for (const bagId of hidden) {
    for (const record of index.recordsOf(bagId)) touch(index.plainOf(record))
  }
  for (const candidate of added) touch(candidate.plain).push(candidate)
  return new Map(Array.from(touched, ([key, members]) => [key, nameClashing(members)]))
}

function isHidden(candidate: Candidate, hidden: ReadonlySet<BagId>): boolean {
  return candidate.kind === 'bag' && hidden.has(candidate.record.bagId)
}

function* listEntries(index: ListingIndex, overlay: Overlay): Iterable<Entry> {
  yield* index.entries(overlay)
  for (const named of overlay.values()) yield* named.values()
}

function countUses(
  index: ListingIndex,
  { hidden }: Changes,
  added: readonly Candidate[],
  bagId: BagId,
): number {
  const names = new Set<string>()
  if (!hidden.has(bagId)) {
    for (const record of index.recordsOf(bagId)) names.add(index.plainOf(record))
  }
  for (const one of added) {
    if (one.kind === 'bag' && one.record.bagId === bagId) names.add(one.plain)
  }
  return names.size
}
