import { isZipName, listedAs, withoutZip } from '../domain/folder-names.ts'
import type { BagId } from '../domain/ids.ts'
import { encodeName } from '../domain/names.ts'
import type { BagFacts, BagRecord } from '../domain/record.ts'
import { ShardedMap } from '../domain/sharded-map.ts'
import { atOnce } from '../domain/turns.ts'
import type { Candidate, Entry } from './entry.ts'
import { countEntries, familyOf, nameFamily } from './family.ts'

/** What is known of a bag's kind. */
export type KindOf = (bagId: BagId) => BagFacts['kind']

/** Most keys have one record; those are kept without an array around them. */
type OneOrMore = BagRecord | BagRecord[]

const NOTHING: readonly BagRecord[] = []

/**
 * The records of a listing by family of names and by bag. Made once for a listing; the names of a
 * family with several members are worked out when they are first asked for. Kinds that are learned later
 * change it in its place.
 */
export class ListingIndex {
  readonly #families = new ShardedMap<string, OneOrMore>()
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
  /** Entries of the families in `#shared`. */
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
    for (const family of this.#shared.keys()) {
      this.#count(family)
      yield
    }
  }

  /** Number of entries that the records make. */
  get size(): number {
    return this.#families.size - this.#shared.size + this.#sharedSize
  }

  /** To be called when the kind of a bag was learned: its records move to the names that they have now. */
  learnKind(bagId: BagId): void {
    const zips = this.recordsOf(bagId).filter(({ name }) => isZipName(name))
    const families = zips.map((record) => familyOf(this.plainOf(record)))
    for (const [at, record] of zips.entries()) this.#removeName(families[at] ?? '', record)
    for (const record of zips) families.push(this.#addName(record))
    for (const family of families) this.#count(family)
  }

  #addName(record: BagRecord): string {
    if (isZipName(record.name)) {
      this.#zippedFolders.set(record.bagId, this.#kindOf(record.bagId) === 'folder')
    }
    const plain = this.plainOf(record)
    const family = familyOf(plain)
    if (family !== plain) this.#longer.set(family, true)
    if (add(this.#families, family, record)) this.#shared.set(family, this.#shared.get(family) ?? 0)
    return family
  }

  #removeName(family: string, record: BagRecord): void {
    const others = toArray(this.#families.get(family)).filter((one) => one !== record)
    const [only] = others
    if (only === undefined) this.#families.delete(family)
    else this.#families.set(family, others.length === 1 ? only : others)
    if (others.length > 1) return
    this.#sharedSize -= this.#shared.get(family) ?? 0
    this.#shared.delete(family)
  }

  /** Counts the entries of a family anew. */
  #count(family: string): void {
    this.#named.delete(family)
    const before = this.#shared.get(family)
    if (before === undefined) return
    const now = countEntries(this.candidatesIn(family))
    this.#shared.set(family, now)
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
    const families = new Set(names.map((name) => familyOf(encodeName(name))))
    return Array.from(families, (family) => toArray(this.#families.get(family)))
      .flat()
      .filter(({ name }) => listedAs(name, uploaded) !== undefined)
  }

  candidatesIn(family: string): readonly Candidate[] {
    return toArray(this.#families.get(family)).map((record) => this.toCandidate(record))
  }

  /** The entry of this shown name, given the name's family. */
  get(family: string, shown: string): Entry | undefined {
    const records = this.#families.get(family)
    if (records === undefined) return undefined
    if (Array.isArray(records)) return this.#name(family).get(shown)
    return this.#plainOfLone(family, records) === shown ? toListed(records, shown) : undefined
  }

  /** All entries but those of the families in `except`. */
  *entries(except: ReadonlyMap<string, unknown>): Iterable<Entry> {
    for (const [family, records] of this.#families) {
      if (except.has(family)) continue
      if (Array.isArray(records)) yield* this.#name(family).values()
      else yield toListed(records, this.#plainOfLone(family, records))
    }
  }

  entriesIn(family: string): Iterable<Entry> {
    return this.#families.has(family) ? this.#name(family).values() : []
  }

  countIn(family: string): number {
    const records = this.#families.get(family)
    if (records === undefined) return 0
    return Array.isArray(records) ? this.#name(family).size : 1
  }

  #name(family: string): ReadonlyMap<string, Entry> {
    let named = this.#named.get(family)
    if (named === undefined) {
      named = nameFamily(this.candidatesIn(family))
      this.#named.set(family, named)
    }
    return named
  }

  /** As `plainOf` of a family's only record: nearly always the key, which is there already. */
  #plainOfLone(family: string, record: BagRecord): string {
    return this.#longer.has(family) ? this.plainOf(record) : family
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
