import type { Clock } from '../../domain/clock.ts'
import { encodeName } from '../../domain/names.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { BagTime, Intent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import type { BagRecord } from '../../domain/record.ts'
import type { Listing, ListingSnapshot } from '../../namespace/listing.ts'
import type { Entry } from '../../namespace/entry.ts'
import {
  expireIntents,
  findKeptOtherwise,
  findMissing,
  findReturned,
  type Lag,
} from '../../intents/expire.ts'
import { indexListing, type ListingIndex } from '../../namespace/listing-index.ts'
import { buildTree, type Tree } from '../../namespace/tree.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import { changeOfItsOwn, isDone } from '../../intents/rules.ts'
import { forgetInOrder } from '../../intents/forget-in-order.ts'
import { namesOfBag, namesOfIntent } from './concerned-names.ts'
import type { MissingBags } from './missing-bags.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { News } from '../tree/news.ts'
import { baseOfEntry, type Contents } from './contents.ts'
import type { RootNames } from './root-names.ts'

interface EntriesDeps {
  readonly listing: Listing
  readonly outbox: Outbox
  readonly rootNames: RootNames
  readonly news: News
  readonly missing: Pick<MissingBags, 'look'>
  readonly clock: Clock
  readonly log: Logger
  readonly contents: Pick<Contents, 'sizeOf'>
}

/** What a name leads to: see `Entries.peek`. */
export interface Peeked {
  readonly node?: FileNode
  readonly entry?: Entry | undefined
}

/** The root of the drive as it is now: listing, intents, and on top files that are being written. */
export class Entries {
  readonly #deps: EntriesDeps
  readonly #lag: Lag
  readonly #noListing: ListingIndex = indexListing([])
  /** What the names mean while they stand still. */
  #held: Tree | undefined
  #tree: { readonly of: ListingSnapshot | undefined; readonly tree: Tree } | undefined
  /** When the root last changed, in milliseconds since the epoch. */
  changedAtMs = 0
  #expiredAt: ListingSnapshot | undefined
  readonly #freshListeners: ((snapshot: ListingSnapshot) => void)[] = []
  #askToPart: ((node: FileNode) => void) | undefined

  constructor(
    deps: EntriesDeps,
    settings: { readonly listingLagMs: number; readonly usualLagMs: number },
  ) {
    this.#deps = deps
    this.#lag = { usualMs: settings.usualLagMs, longestMs: settings.listingLagMs }
    deps.outbox.onChange((before, after) => {
      for (const intent of [before, after]) {
        if (intent !== undefined) this.#tell(() => namesOfIntent(this.#known, intent))
      }
      if (this.#held !== undefined || !this.#follows(before, after)) this.#tree = undefined
      this.changedAtMs = deps.clock.now()
    })
    deps.listing.onChange((_snapshot, only) => {
      this.changedAtMs = deps.clock.now()
      if (only === undefined) deps.news.root()
      else this.noteBag(only)
      // The kernel is asked at once, so that the next look finds the new version.
      if (this.#askToPart !== undefined) this.#followOpenFiles()
    })
  }

  /** Something else is known of a bag, such as its kind or its length. */
  noteBag(bagId: BagId): void {
    this.#tell(() => namesOfBag(this.#known, bagId))
  }

  /** Told with those that depend on them as yet; what depends on them from now on is for the listener to ask. */
  #tell(plain: () => Iterable<string>): void {
    const { news } = this.#deps
    if (!news.isHeard) return
    const names = new Set(plain())
    for (const name of [...names]) {
      for (const { shown } of this.#tree?.tree.relatives(name) ?? []) names.add(shown)
    }
    news.names(names)
  }

  get #known() {
    return { index: this.#index, outbox: this.#deps.outbox }
  }

  /** Names that depend on this one, as clashes have it. */
  related(name: string): readonly string[] {
    return this.tree()
      .relatives(name)
      .map(({ shown }) => shown)
  }

  /** Makes sure the listing is as new as its time to live wants; throws when there is none at all. */
  async fresh(): Promise<void> {
    this.#noteFresh(await this.#deps.listing.fresh())
  }

  /** As `fresh`, with a listing that is no older than `ageMs`, if the service tells it in time. */
  async youngerThan(ageMs: number): Promise<void> {
    this.#noteFresh(await this.#deps.listing.youngerThan(ageMs))
  }

  /** As `fresh`, without waiting; false when that needs it. */
  freshNow(): boolean {
    const snapshot = this.#deps.listing.freshNow()
    if (snapshot !== undefined) this.#noteFresh(snapshot)
    return snapshot !== undefined
  }

  /** `listener` is told of each answer of the service, before anything is found by it. */
  onFresh(listener: (snapshot: ListingSnapshot) => void): void {
    this.#freshListeners.push(listener)
  }

  #noteFresh(snapshot: ListingSnapshot): void {
    if (this.#expiredAt === snapshot) return
    this.#expiredAt = snapshot
    for (const listener of this.#freshListeners) listener(snapshot)
    this.#expire(snapshot).catch((error: unknown) => {
      this.#deps.log.error({ error: String(error) }, 'Finished intents stay behind.')
    })
  }

  tree(): Tree {
    return this.#held ?? this.#treeNow()
  }

  /**
   * All names mean what they do until what this answers is called: between the steps of a change of names, a name may
   * mean nothing, or what nothing is to be made of. One at a time: callers hold the lock of names.
   */
  holdStill(nodes: readonly FileNode[]): () => void {
    const namesNow = (): string[] => nodes.flatMap(({ name }) => name ?? [])
    const before = namesNow()
    this.#held = this.#treeNow()
    return () => {
      if (this.#held === undefined) return
      this.#held = undefined
      this.#tell(() => [...before, ...namesNow()])
    }
  }

  #treeNow(): Tree {
    const snapshot = this.#deps.listing.current()
    if (this.#tree === undefined || this.#tree.of !== snapshot) {
      const tree = buildTree(this.#index, this.#deps.outbox.intents())
      this.#tree = { of: snapshot, tree }
    }
    return this.#tree.tree
  }

  /** Thousands of new files that wait, or were stored a moment ago, are no reason to build all anew for each change of one. */
  #follows(before: Intent | undefined, after: Intent | undefined): boolean {
    if (this.#tree === undefined || this.#tree.of !== this.#deps.listing.current()) return false
    const change = changeOfItsOwn(this.#deps.outbox, before, after)
    return change !== undefined && this.#tree.tree.follow(change.before, change.after)
  }

  records(): readonly BagRecord[] {
    return this.#deps.listing.current()?.records ?? []
  }

  /** What the listing tells of a bag. */
  recordsOf(bagId: BagId): readonly BagRecord[] {
    return this.#index.recordsOf(bagId)
  }

  /** The name that an entry has when nothing else wants that. */
  plainOf(entry: Entry): string {
    return entry.kind === 'bag' ? this.#index.plainOf(entry.record) : encodeName(entry.intent.name)
  }

  /** What the listing has under the name of an upload. */
  recordsOfUpload(uploaded: { readonly name: string; readonly isFolder?: boolean }): BagRecord[] {
    return this.#index.recordsOfUpload(uploaded)
  }

  /**
   * When each of these bags was uploaded (again), as the listing says. Of what was stored from here a moment ago
   * it may tell an upload of before: equal content can be given an equal id.
   */
  uploadsOf(bagIds: readonly BagId[]): readonly BagTime[] {
    const isOurs = (bagId: BagId): boolean =>
      this.#deps.outbox.ofBag(bagId).some((each) => each.kind === 'put' && each.bagId === bagId)
    return bagIds.flatMap((bagId) => {
      if (isOurs(bagId)) return []
      const times = this.recordsOf(bagId).map(({ uploadedAtMs }) => uploadedAtMs)
      const atMs = Math.max(0, ...times)
      return atMs === 0 ? [] : [{ bagId, atMs }]
    })
  }

  get #index(): ListingIndex {
    return this.#deps.listing.current()?.index ?? this.#noListing
  }

  /** True when a visible entry is this bag, also where names stand still. */
  shows(bagId: BagId): boolean {
    return this.#treeNow().usesOf(bagId) > 0
  }

  /**
   * For a kernel that has one size and one content for all open files of a name: `ask` is told of an open file
   * whose name is to mean another version. The name means what it meant until `part` says that the kernel knows
   * the open files by another name.
   */
  onParting(ask: (node: FileNode) => void): void {
    this.#askToPart = ask
  }

  /** See `onParting`. */
  get isOneInodePerName(): boolean {
    return this.#askToPart !== undefined
  }

  /** The name of a node may mean another version from now on. */
  part(node: FileNode): void {
    node.parting = node.handles.size > 0 ? 'done' : 'no'
    this.changedAtMs = this.#deps.clock.now()
  }

  /** True when nothing keeps a name from meaning something else than this node. */
  #mayPart(node: FileNode): boolean {
    if (node.handles.size === 0 || this.#askToPart === undefined) return true
    if (node.parting === 'no') {
      node.parting = 'asked'
      this.#askToPart(node)
    }
    return node.parting === 'done'
  }

  /** The node of a typed name, or undefined when nothing has this name. */
  resolve(typed: string): FileNode | undefined {
    const { rootNames } = this.#deps
    const draft = rootNames.named(typed) ?? rootNames.named(encodeName(typed))
    if (draft?.hasUnpromised === true) return draft
    const entry = this.tree().resolve(typed)
    if (entry === undefined) {
      // A node without an entry is being created right now.
      if (draft?.entry === undefined) return undefined
      if (!this.#mayPart(draft)) return draft
      rootNames.standAside(draft)
      return undefined
    }
    return this.#nodeOf(entry)
  }

  /**
   * What a name leads to, or will when it is resolved, with nothing led anywhere: between two steps of a change a name may
   * mean what nothing is to be made of. Without a node it is one that is to be made.
   */
  peek(typed: string): Peeked | undefined {
    const { rootNames, outbox } = this.#deps
    const draft = rootNames.named(typed)
    if (draft?.hasUnpromised === true) return { node: draft, entry: draft.entry }
    const entry = this.tree().resolve(typed)
    if (entry === undefined)
      return draft?.entry === undefined && draft ? { node: draft } : undefined
    const known = rootNames.named(entry.shown)
    const isKept =
      known !== undefined &&
      (known.handles.size === 0 || known.entry === entry || isVersionOf(known, entry, outbox))
    return isKept ? { node: known, entry } : { entry }
  }

  /** Leads the name to a node whose content was just promised, from whatever else has it. */
  promised(node: FileNode): void {
    const entry = this.tree().get(encodeName(node.serviceName))
    if (entry?.kind === 'pending' && entry.intent.id === node.staged?.id) this.#nodeOf(entry)
    else if (node.name !== undefined && !node.isAside) this.resolve(node.name)
  }

  /**
   * To be called when the entry of a node got another intent by a change of its name. What a program began to write meanwhile
   * was made from that entry, and takes its place; what another machine stored under the name meanwhile stays.
   */
  follow(node: FileNode): void {
    const { name, staged } = node
    if (name === undefined) return
    const entry = this.tree().resolve(name)
    const isItsOwn = entry !== undefined && isVersionOf(node, entry, this.#deps.outbox)
    if (staged?.hasUnpromised === true && isItsOwn) {
      node.entry = entry
      staged.base = baseOfEntry(entry)
    }
    this.resolve(name)
  }

  /** Shown names of the root; a file that is being written hides the entry of its name. */
  *listed(): Iterable<{ readonly name: string; readonly entry?: Entry }> {
    const drafts = new Set<string>()
    for (const node of this.#deps.rootNames.namedAll()) {
      if (node.hasUnpromised && node.name !== undefined) drafts.add(node.name)
    }
    for (const entry of this.tree().entries()) {
      if (!drafts.has(entry.shown)) yield { name: entry.shown, entry }
    }
    for (const name of drafts) yield { name }
  }

  /** The node of an entry. An open file never becomes another version: that gets a node of its own. */
  #nodeOf(entry: Entry): FileNode {
    const { rootNames, outbox, clock } = this.#deps
    const aside = rootNames.findAside((node) => isVersionOf(node, entry, outbox))
    const known = rootNames.named(entry.shown)
    const isSame = known?.handles.size === 0 || (known && isVersionOf(known, entry, outbox))
    if (aside === undefined && known !== undefined && isSame === true) {
      this.#update(known, entry)
      return known
    }
    if (known !== undefined) {
      if (!this.#mayPart(known)) return known
      rootNames.standAside(known)
    }
    if (aside !== undefined) rootNames.takeName(aside, entry.shown)
    const node = aside ?? rootNames.add(entry.shown, serviceNameOf(entry))
    // For the kernel it is the same file as before.
    if (known !== undefined) node.sizeChangedAtMs = clock.now()
    this.#update(node, entry)
    return node
  }

  /** Notes what the namespace says of a node now, and when that changed its size. */
  #update(node: FileNode, entry: Entry): void {
    const before = node.entry
    if (before === entry) return
    if (before !== undefined && !isVersionOf(node, entry, this.#deps.outbox)) node.version += 1
    node.entry = entry
    node.serviceName = serviceNameOf(entry)
    if (before === undefined || node.staged !== undefined) return
    const { contents, clock } = this.#deps
    if (contents.sizeOf(before) !== contents.sizeOf(entry)) node.sizeChangedAtMs = clock.now()
  }

  /** Forgets confirmed intents that the listing agrees with, once a kill could not bring an older one back. */
  async #expire(snapshot: ListingSnapshot): Promise<void> {
    const { outbox, listing, missing, log } = this.#deps
    outbox.followClock()
    if (!outbox.intents().some(isDone) || !(await listing.keep())) return
    const confirmed = outbox.intents()
    const { gone, back } = await missing.look(
      findMissing(snapshot, confirmed),
      findReturned(snapshot, confirmed),
    )
    this.#followOpenFiles()
    const beside = { gone, back, kept: this.#basesOfDrafts() }
    const expired = expireIntents(snapshot, outbox.intents(), this.#lag, beside)
    for (const { put, listedAs } of findKeptOtherwise(snapshot, expired, outbox)) {
      const { bagId } = put
      log.warn(
        { bagId },
        `The service keeps what was stored as "${put.name}" as "${listedAs}" only.`,
      )
    }
    await forgetInOrder(expired, async (intent) => {
      await outbox.remove(intent.id, intent)
      return outbox.get(intent.id) === undefined
    })
  }

  /** Open files learn which bags they have become, while the intents that tell it are still there. */
  #followOpenFiles(): void {
    for (const { name, handles } of [...this.#deps.rootNames.namedAll()]) {
      if (name !== undefined && handles.size > 0) this.resolve(name)
    }
  }

  /** Intents that a file which is being written, or may be, will supersede. */
  #basesOfDrafts(): ReadonlySet<IntentId> {
    const ids = new Set<IntentId>()
    for (const { staged, entry, isAside } of this.#deps.rootNames.all()) {
      for (const id of staged?.base.supersedes ?? []) ids.add(id)
      if (isAside && entry?.kind === 'pending') ids.add(entry.intent.id)
    }
    return ids
  }
}

/** True when an entry is the version that a node is, or one that was made from it on this machine. */
function isVersionOf(node: FileNode, entry: Entry, outbox: Pick<Outbox, 'put'>): boolean {
  const before = node.entry
  const ids = [node.staged?.id, before?.kind === 'pending' ? before.intent.id : undefined]
  if (entry.kind === 'pending') {
    const { id, supersedes, replaces } = entry.intent
    if (before?.kind === 'bag' && replaces.includes(before.record.bagId)) return true
    return ids.some((own) => own !== undefined && (own === id || supersedes.includes(own)))
  }
  const { bagId } = entry.record
  if (before?.kind === 'bag' && before.record.bagId === bagId) return true
  return ids.some((own) => outbox.put(own)?.bagId === bagId)
}

/** The name under which a new version of this entry is uploaded. */
function serviceNameOf(entry: Entry): string {
  if (entry.kind === 'pending') return entry.intent.name
  const { name } = entry.record
  if (name === entry.shown) return name
  const isPlain = encodeName(name) === entry.shown && name !== '' && !/[/\0]/.test(name)
  return isPlain ? name : entry.shown
}
