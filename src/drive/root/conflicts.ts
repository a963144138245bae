import type { BagCache } from '../../content/bag-cache.ts'
import { makeClosing } from '../../domain/closing.ts'
import type { Clock } from '../../domain/clock.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { encodeName } from '../../domain/names.ts'
import type { BagRecord, FactsAccess } from '../../domain/record.ts'
import type { Base } from '../../intents/base.ts'
import { readIntents } from '../../intents/changes.ts'
import type { Intent, PutIntent } from '../../intents/intent.ts'
import { isHeldFile, isSuperseded, isUnproven } from '../../intents/rules.ts'
import type { Listing } from '../../namespace/listing.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Conflict, ConflictsStore } from '../../state/conflicts-store.ts'
import type { Entries } from './entries.ts'

interface ConflictsDeps {
  readonly entries: Entries
  readonly outbox: Outbox
  readonly listing: Pick<Listing, 'onChange'>
  readonly cache: Pick<BagCache, 'sumOf'>
  readonly facts: Pick<FactsAccess, 'get'>
  readonly toldConflicts: Pick<ConflictsStore, 'all' | 'replace'>
  readonly clock: Clock
  readonly log: Logger
}

/** A conflict that can still be seen. */
export interface ShownConflict extends Conflict {
  /** The name that the other machine's version has in the drive. */
  readonly other: string
}

/** As many as a person may want to read. */
const MOST = 100

/** Larger content is not fetched to see whether it is the same. */
const MOST_COMPARED_BYTES = 16 * 1024 * 1024

/** A meeting that may be none: the other machine may have made its version from this one, and be about to delete this. */
interface Doubt {
  readonly put: PutIntent
  readonly ours: BagId
  readonly other: BagRecord
  readonly sinceMs: number
}

/** Notices when a change takes a name from a version that it was not made from; that version stays. */
export class Conflicts {
  readonly #deps: ConflictsDeps
  readonly #lagMs: number
  readonly #listeners = new Set<(conflict: ShownConflict) => void>()
  /** By the other machine's bag. */
  readonly #doubts = new Map<BagId, Doubt>()
  /** Other machines' bags that are compared, or were found to be what this machine has stored. */
  readonly #compared = new Set<BagId>()
  readonly #closing = makeClosing()

  constructor(deps: ConflictsDeps, settings: { readonly usualLagMs: number }) {
    this.#deps = deps
    this.#lagMs = settings.usualLagMs
    deps.entries.onFresh(() => {
      this.#look()
    })
    deps.listing.onChange((_snapshot, only) => {
      if (only === undefined) this.#look()
    })
  }

  /** What has a name now, when new content made from `base` does not take its place. */
  find(name: string, base: Base): BagRecord | undefined {
    const { entries, outbox } = this.#deps
    const entry = entries.tree().get(encodeName(name))
    if (entry?.kind !== 'bag') return undefined
    const { bagId } = entry.record
    const isOurs = base.supersedes.some((id) => outbox.put(id)?.bagId === bagId)
    return isOurs || base.replaces.includes(bagId) ? undefined : entry.record
  }

  /** Looks for what other machines stored beside changes of here. */
  #look(): void {
    const { entries, outbox } = this.#deps
    const intents = outbox.intents()
    for (const bagId of this.#compared) if (!entries.shows(bagId)) this.#compared.delete(bagId)
    this.#forgetEnded()
    this.#settleDoubts()
    const watched = intents.filter(isWatched).filter(({ id }) => !isSuperseded(outbox, id))
    if (watched.length === 0) return
    const { concerned } = readIntents(intents)
    const known = new Set([...concerned, ...this.#compared, ...this.#doubts.keys()])
    for (const { bagId } of this.#deps.toldConflicts.all()) known.add(bagId)
    for (const put of watched) {
      for (const other of entries.recordsOfUpload(put)) {
        const { bagId } = other
        const isNew = put.namesakes?.includes(bagId) === false && !known.has(bagId)
        if (isNew && entries.shows(bagId)) this.#noteBeside(put, other)
      }
    }
  }

  /** One that was stored later may be made from what is stored here. */
  #noteBeside(put: PutIntent, other: BagRecord): void {
    const { entries, clock } = this.#deps
    const { bagId: ours } = put
    if (ours === undefined) {
      this.meet(put, other)
      return
    }
    const [record] = entries.recordsOf(ours)
    if (record === undefined) return
    if (other.uploadedAtMs < record.uploadedAtMs) this.meet(put, other)
    else this.#doubts.set(other.bagId, { put, ours, other, sinceMs: clock.now() })
  }

  /** What was made from a version takes its place at once, as listings show it within their lag. */
  #settleDoubts(): void {
    const { entries, clock } = this.#deps
    for (const [bagId, { put, ours, other, sinceMs }] of this.#doubts) {
      const areBoth = entries.shows(ours) && entries.shows(bagId)
      if (areBoth && clock.now() - sinceMs < this.#lagMs) continue
      this.#doubts.delete(bagId)
      if (areBoth) this.meet(put, other)
    }
  }

  /** A change of here met another machine's version of its name: tells of it, unless they are the same. */
  meet(put: PutIntent, other: BagRecord): void {
    const { bagId } = other
    const likeness = this.#likenessOf(put, other)
    if (likeness === 'other') {
      this.#note(put.name, bagId)
      return
    }
    this.#compared.add(bagId)
    if (likeness === 'same') return
    this.#compare(put, bagId).catch((error: unknown) => {
      this.#compared.delete(bagId)
      this.#deps.log.debug({ bagId, error: String(error) }, 'Another version cannot be compared.')
    })
  }

  /** A listed size may be wrong: so what may have been sent, and its answer lost, is compared in any case. */
  #likenessOf(put: PutIntent, { bagId, size }: BagRecord): 'same' | 'other' | 'unknown' {
    const { content } = put
    if (content.from !== 'staged') return 'other'
    const known = this.#deps.facts.get(bagId)?.sha256
    if (known !== undefined) return known === content.sha256 ? 'same' : 'other'
    const { length } = content
    const bytes = size ?? length
    if (bytes > MOST_COMPARED_BYTES) return bytes === length ? 'same' : 'other'
    return bytes === length || isUnproven(put) ? 'unknown' : 'other'
  }

  async #compare({ name, content }: PutIntent, bagId: BagId): Promise<void> {
    const { sha256 } = await this.#deps.cache.sumOf(bagId, { signal: this.#closing.signal })
    if (content.from !== 'staged' || content.sha256 !== sha256) this.#note(name, bagId)
  }

  #note(name: string, bagId: BagId): void {
    const conflict = { name, bagId, atMs: this.#deps.clock.now() }
    const { toldConflicts } = this.#deps
    const others = toldConflicts.all().filter((each) => each.bagId !== bagId)
    toldConflicts.replace([...others, conflict].slice(-MOST))
    const shown = this.#show(conflict)
    if (shown === undefined) return
    this.#deps.log.warn({ bagId }, describeConflict(shown))
    for (const listener of this.#listeners) listener(shown)
  }

  close(): void {
    this.#closing.abort()
  }

  /** Those whose other version is still there, oldest first. */
  list(): readonly ShownConflict[] {
    return this.#deps.toldConflicts.all().flatMap((each) => this.#show(each) ?? [])
  }

  #forgetEnded(): void {
    const { toldConflicts } = this.#deps
    const left = toldConflicts.all().filter((each) => this.#show(each) !== undefined)
    if (left.length < toldConflicts.all().length) toldConflicts.replace(left)
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

/** Puts that take a name at the service, with content that can be told from another machine's. */
function isWatched(intent: Intent): intent is PutIntent {
  if (intent.kind !== 'put' || intent.content.from === 'bag') return false
  return intent.phase !== 'local' && !isHeldFile(intent)
}

/** One sentence, for the user. */
export function describeConflict({ name, other }: Pick<ShownConflict, 'name' | 'other'>): string {
  if (other === name) {
    return `${name} was changed on another machine, and is that version; yours is beside it`
  }
  return `${name} was changed on another machine; that version is ${other}`
}
