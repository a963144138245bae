import type { Clock } from '../domain/clock.ts'
import { encodeName } from '../domain/names.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { BagRecord } from '../domain/record.ts'
import type { Listing, ListingSnapshot } from '../namespace/listing.ts'
import type { Entry } from '../namespace/entry.ts'
import { expireIntents } from '../namespace/expire.ts'
import { indexListing, type ListingIndex } from '../namespace/listing-index.ts'
import { buildTree, type Tree } from '../namespace/tree.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { isFinished } from '../outbox/schedule.ts'
import { forgetInOrder } from './forget-in-order.ts'
import type { FileNode, Nodes } from './nodes.ts'

interface EntriesDeps {
  readonly listing: Listing
  readonly outbox: Outbox
  readonly nodes: Nodes
  readonly clock: Clock
  readonly log: Logger
  /** Size of an entry as it is shown, in bytes. */
  readonly sizeOf: (entry: Entry) => number
}

/** The root of the drive as it is now: listing, intents, and on top files that are being written. */
export class Entries {
  readonly #deps: EntriesDeps
  readonly #listingLagMs: number
  readonly #noListing: ListingIndex = indexListing([])
  #tree: { readonly of: ListingSnapshot | undefined; readonly tree: Tree } | undefined
  /** When the root last changed, in milliseconds since the epoch. */
  changedAtMs = 0
  #expiredAt: ListingSnapshot | undefined

  constructor(deps: EntriesDeps, settings: { readonly listingLagMs: number }) {
    this.#deps = deps
    this.#listingLagMs = settings.listingLagMs
    deps.outbox.onChange(() => {
      this.#tree = undefined
      this.changedAtMs = deps.clock.now()
    })
    deps.listing.onChange(() => {
      this.changedAtMs = deps.clock.now()
    })
  }

  /** Makes sure the listing is as new as DESIGN "Freshness" wants; throws when there is none at all. */
  async fresh(): Promise<void> {
    this.#noteFresh(await this.#deps.listing.fresh())
  }

  /** As `fresh`, without waiting; false when that needs it. */
  freshNow(): boolean {
    const snapshot = this.#deps.listing.freshNow()
    if (snapshot !== undefined) this.#noteFresh(snapshot)
    return snapshot !== undefined
  }

  #noteFresh(snapshot: ListingSnapshot): void {
    if (this.#expiredAt === snapshot) return
    this.#expiredAt = snapshot
    this.#expire(snapshot).catch((error: unknown) => {
      this.#deps.log.error({ error: String(error) }, 'Finished intents stay behind.')
    })
  }

  tree(): Tree {
    const snapshot = this.#deps.listing.current()
    if (this.#tree === undefined || this.#tree.of !== snapshot) {
      const index = snapshot?.index ?? this.#noListing
      const tree = buildTree(index, this.#deps.outbox.intents())
      this.#tree = { of: snapshot, tree }
    }
    return this.#tree.tree
  }

  records(): readonly BagRecord[] {
    return this.#deps.listing.current()?.records ?? []
  }

  /** True when a visible entry is this bag. */
  shows(bagId: BagId): boolean {
    return this.tree().usesOf(bagId) > 0
  }

  /** The node of a typed name, or undefined when nothing has this name. */
  resolve(typed: string): FileNode | undefined {
    const { nodes } = this.#deps
    const draft = nodes.named(typed) ?? nodes.named(encodeName(typed))
    if (draft?.isDraft === true) return draft
    const entry = this.tree().resolve(typed)
    if (entry === undefined) {
      // A node without an entry is being created right now.
      if (draft?.entry !== undefined) nodes.unlink(draft)
      return undefined
    }
    return this.#nodeOf(entry)
  }

  /** Shown names of the root; a file that is being written hides the entry of its name. */
  *listed(): Iterable<{ readonly name: string; readonly entry?: Entry }> {
    const drafts = new Set<string>()
    for (const node of this.#deps.nodes.all()) {
      if (node.isDraft && node.name !== undefined) drafts.add(node.name)
    }
    for (const entry of this.tree().entries()) {
      if (!drafts.has(entry.shown)) yield { name: entry.shown, entry }
    }
    for (const name of drafts) yield { name }
  }

  #nodeOf(entry: Entry): FileNode {
    const { nodes } = this.#deps
    const known = nodes.named(entry.shown)
    const node = known ?? nodes.add(entry.shown, serviceNameOf(entry))
    this.#update(node, entry)
    return node
  }

  /** Notes what the namespace says of a node now, and when that changed its size. */
  #update(node: FileNode, entry: Entry): void {
    const before = node.entry
    if (before === entry) return
    node.entry = entry
    node.serviceName = serviceNameOf(entry)
    if (before === undefined || node.staged !== undefined) return
    const { sizeOf, clock } = this.#deps
    if (sizeOf(before) !== sizeOf(entry)) node.sizeChangedAtMs = clock.now()
  }

  /** Forgets confirmed intents that the listing agrees with, once a kill could not bring an older one back. */
  async #expire(snapshot: ListingSnapshot): Promise<void> {
    const { outbox, listing } = this.#deps
    if (!outbox.intents().some(isFinished) || !(await listing.keep())) return
    const kept = this.#basesOfDrafts()
    // One that is still needed counts as unfinished, so that what belongs together stays together.
    const intents = outbox
      .intents()
      .map((intent) =>
        kept.has(intent.id) && intent.kind === 'put'
          ? { ...intent, replacedAreDeleted: false }
          : intent,
      )
    const expired = expireIntents(snapshot, intents, this.#listingLagMs)
    await forgetInOrder(expired, async (intent) => {
      await outbox.remove(intent.id, intent)
      return outbox.get(intent.id) === undefined
    })
  }

  /** Intents that a file which is being written will supersede. */
  #basesOfDrafts(): ReadonlySet<IntentId> {
    const ids = new Set<IntentId>()
    for (const node of this.#deps.nodes.all()) {
      for (const id of node.staged?.base.supersedes ?? []) ids.add(id)
    }
    return ids
  }
}

/** The name under which a new version of this entry is uploaded. */
function serviceNameOf(entry: Entry): string {
  if (entry.kind === 'pending') return entry.intent.name
  const { name } = entry.record
  if (name === entry.shown) return name
  const isPlain = encodeName(name) === entry.shown && name !== '' && !/[/\0]/.test(name)
  return isPlain ? name : entry.shown
}
