import { isZipName, listedAs, withoutZip } from '../domain/folder-names.ts'
import type { BagId } from '../domain/ids.ts'
import { encodeName } from '../domain/names.ts'
import type { BagFacts, BagRecord } from '../domain/record.ts'
import { ShardedMap } from '../domain/sharded-map.ts'
import { atOnce } from '../domain/turns.ts'
import type { Candidate, Entry } from './entry.ts'
import { countEntries, clashKeyOf, nameClashing } from './name-clashes.ts'

/** What is known of a bag's kind. */
export type KindOf = (bagId: BagId) => BagFacts['kind']

/** Most keys have one record; those are kept without an array around them. */
type OneOrMore = BagRecord | BagRecord[]

const NOTHING: readonly BagRecord[] = []

/**
 * The records of a listing by clash key and by bag. Made once for a listing; the names of a
 * clash group with several members are worked out when they are first asked for. Kinds that are learned later
 * change it in its place.
 */
export class ListingIndex {
  readonly #byClashKey = new ShardedMap<string, OneOrMore>()
  readonly #bags = new ShardedMap<BagId, OneOrMore>()
  readonly #named = new ShardedMap<string, ReadonlyMap<string, Entry>>()
  /** Families of one record whose plain name is not the key itself: the few with something like an id in it. */
  readonly #longer = new ShardedMap<string, true>()
  /**
   * Whether a listed bag named `*.zip` was known as a folder when it was added. Kept, because the keys
   * of the index follow from it.
   */
  readonly #zippedFolders = new ShardedMap<BagId, boolean>()
  readonly #kindOf: KindOf
  /** Families of several records, and how many entries each makes. */
  readonly #shared = new ShardedMap<string, number>()
  /** Entries of the clash groups in `#shared`. */
  #sharedSize = 0

  constructor(kindOf: KindOf) {
    this.#kindOf = kindOf
  }

  /** Takes records in, a small step at a time. */
  *add(records: readonly BagRecord[]): Generator<undefined, void> {
    for (const record of records) {
      add(this.#bags, record.bagId, record)
      this.#addName(record)
      yield
    }
    for (const key of this.#shared.keys()) {
      this.#count(key)
      yield
    }
  }

  /** Number of entries that the records make. */
  get size(): number {
    return this.#byClashKey.size - this.#shared.size + this.#sharedSize
  }

  /**
   * To be called when something was learned of a bag: its records move to the names that they have by its kind. False
   * when they have these already.
   */
  learnKind(bagId: BagId): boolean {
    const isFolder = this.#kindOf(bagId) === 'folder'
    if ((this.#zippedFolders.get(bagId) ?? isFolder) === isFolder) return false
    const zips = this.recordsOf(bagId).filter(({ name }) => isZipName(name))
    const keys = zips.map((record) => clashKeyOf(this.plainOf(record)))
    for (const [at, record] of zips.entries()) this.#removeName(keys[at] ?? '', record)
    for (const record of zips) keys.push(this.#addName(record))
    for (const key of keys) this.#count(key)
    return true
  }

  #addName(record: BagRecord): string {
    if (isZipName(record.name)) {
      this.#zippedFolders.set(record.bagId, this.#kindOf(record.bagId) === 'folder')
    }
    const plain = this.plainOf(record)
    const key = clashKeyOf(plain)
    if (key !== plain) this.#longer.set(key, true)
    if (add(this.#byClashKey, key, record)) this.#shared.set(key, this.#shared.get(key) ?? 0)
    return key
  }

  #removeName(key: string, record: BagRecord): void {
    const others = toArray(this.#byClashKey.get(key)).filter((one) => one !== record)
    const [only] = others
    if (only === undefined) this.#byClashKey.delete(key)
    else this.#byClashKey.set(key, others.length === 1 ? only : others)
    if (others.length > 1) return
    this.#sharedSize -= this.#shared.get(key) ?? 0
    this.#shared.delete(key)
  }

  /** Counts the entries of a clash group anew. */
  #count(key: string): void {
    this.#named.delete(key)
    const before = this.#shared.get(key)
    if (before === undefined) return
    const now = countEntries(this.candidatesIn(key))
    this.#shared.set(key, now)
    this.#sharedSize += now - before
  }

  /** The name that a record is shown under when no other wants it; a folder's goes without `.zip`. */
  plainOf(record: BagRecord): string {
    return encodeName(this.#isZippedFolder(record) ? withoutZip(record.name) : record.name)
  }

  toCandidate(record: BagRecord): Candidate {
    return { kind: 'bag', plain: this.plainOf(record), record }
  }

  recordsOf(bagId: BagId): readonly BagRecord[] {
    return toArray(this.#bags.get(bagId))
  }

  /** Records that list what was uploaded under this name. */
  recordsOfUpload(uploaded: { readonly name: string; readonly isFolder?: boolean }): BagRecord[] {
    const names = [uploaded.name, `${uploaded.name}.zip`, withoutZip(uploaded.name)]
    const keys = new Set(names.map((name) => clashKeyOf(encodeName(name))))
    return Array.from(keys, (key) => toArray(this.#byClashKey.get(key)))
      .flat()
      .filter(({ name }) => listedAs(name, uploaded) !== undefined)
  }

  candidatesIn(key: string): readonly Candidate[] {
    return toArray(this.#byClashKey.get(key)).map((record) => this.toCandidate(record))
  }

  /** The entry of this shown name, given the name's clash key. */
  get(key: string, shown: string): Entry | undefined {
    const records = this.#byClashKey.get(key)
    if (records === undefined) return undefined
    if (Array.isArray(records)) return this.#name(key).get(shown)
    return this.#plainOfLone(key, records) === shown ? toListed(records, shown) : undefined
  }

  /** All entries but those of the clash groups in `except`. */
  *entries(except: ReadonlyMap<string, unknown>): Iterable<Entry> {
    for (const [key, records] of this.#byClashKey) {
      if (except.has(key)) continue
      if (Array.isArray(records)) yield* this.#name(key).values()
      else yield toListed(records, this.#plainOfLone(key, records))
    }
  }

  entriesIn(key: string): Iterable<Entry> {
    return this.#byClashKey.has(key) ? this.#name(key).values() : []
  }

  countIn(key: string): number {
    const records = this.#byClashKey.get(key)
    if (records === undefined) return 0
    return Array.isArray(records) ? this.#name(key).size : 1
  }

  #name(key: string): ReadonlyMap<string, Entry> {
    let named = this.#named.get(key)
    if (named === undefined) {
      named = nameClashing(this.candidatesIn(key))
      this.#named.set(key, named)
    }
    return named
  }

  /** As `plainOf` of a clash group's only record: nearly always the key, which is there already. */
  #plainOfLone(key: string, record: BagRecord): string {
    return this.#longer.has(key) ? this.plainOf(record) : key
  }

  #isZippedFolder({ bagId, name }: BagRecord): boolean {
    if (!isZipName(name)) return false
    return this.#zippedFolders.get(bagId) ?? this.#kindOf(bagId) === 'folder'
  }
}

export function indexListing(
  records: readonly BagRecord[],
  kindOf: KindOf = () => undefined,
): ListingIndex {
  const index = new ListingIndex(kindOf)
  atOnce(index.add(records))
  return index
}

/** True when there was something under this key. */
function add<Key extends string>(
  map: ShardedMap<Key, OneOrMore>,
  key: Key,
  record: BagRecord,
): boolean {
  const found = map.get(key)
  if (Array.isArray(found)) found.push(record)
  else map.set(key, found === undefined ? record : [found, record])
  return found !== undefined
}

function toListed(record: BagRecord, shown: string): Entry {
  return { shown, kind: 'bag', record }
}

function toArray(found: OneOrMore | undefined): readonly BagRecord[] {
  if (found === undefined) return NOTHING
  return Array.isArray(found) ? found : [found]
}
