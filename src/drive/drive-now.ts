import type { BagCache } from '../content/bag-cache.ts'
import { encodeName } from '../domain/names.ts'
import type { NodeId } from '../domain/ids.ts'
import type { Listing } from '../namespace/listing.ts'
import type { FolderHome } from './folders/folder-home.ts'
import type { OpenFolders } from './folders/open-folders.ts'
import type { Entries } from './root/entries.ts'
import { LOOKS_PER_TTL, type KeptFresh } from './root/kept-fresh.ts'
import type { RootAttributes } from './root/root-attributes.ts'
import type { Attributes } from './tree/attributes.ts'
import type { News, NewsListener } from './tree/news.ts'
import { ROOT, type Nodes } from './tree/nodes.ts'

interface DriveNowDeps {
  readonly nodes: Nodes
  readonly news: News
  readonly entries: Entries
  readonly openFolders: OpenFolders
  readonly keptFresh: KeptFresh
  readonly listing: Pick<Listing, 'ttlMs'>
  readonly cache: Pick<BagCache, 'timesTakenBack'>
  readonly folders: FolderHome
  readonly attributes: RootAttributes
}

/** What is so now, answered at once: for a bridge that compares it with what the kernel was told. */
export class DriveNow {
  readonly #deps: DriveNowDeps

  constructor(deps: DriveNowDeps) {
    this.#deps = deps
  }

  /** `listener` is told of all that may change but by what the kernel itself asks for. */
  listen(listener: NewsListener): void {
    this.#deps.news.listen(listener)
  }

  /** For how long what is steady may be trusted from now on, in ms; meanwhile the listing is kept fresh. */
  trust(): number {
    return this.#deps.keptFresh.trust()
  }

  /** True while the listing is young enough to go by; where it is not, a new one is asked for. */
  isFresh(): boolean {
    return this.#deps.entries.freshNow()
  }

  /** True for a node of which the news tell, and for its name where that is given as the drive shows it. */
  isSteady(node: NodeId, name?: string): boolean {
    const { nodes, openFolders } = this.#deps
    if (node === ROOT) return true
    const inRoot = nodes.inRoot(node)
    if (inRoot === undefined) return openFolders.isSteady(node)
    if (inRoot.isAside || inRoot.name === undefined) return false
    if (name !== undefined && inRoot.name !== name) return false
    return openFolders.opened(node)?.isOutdated !== true
  }

  /**
   * For how long it may be trusted that nothing has a name, in ms: so short that what another machine makes still shows
   * within the time to live of the listing. 0 where another spelling may give the name something.
   */
  ofAbsence(parent: NodeId, name: string): number {
    if (parent === ROOT && encodeName(name) !== name) return 0
    if (parent !== ROOT && this.#deps.openFolders.placeNow(parent) === undefined) return 0
    return this.#deps.listing.ttlMs / LOOKS_PER_TTL
  }

  /** What a name of the root leads to, with nothing changed by this look; `unknown` when that has no id yet. */
  named(name: string): Attributes | 'unknown' | undefined {
    const { entries, attributes, folders } = this.#deps
    const peeked = entries.peek(name)
    if (peeked === undefined) return undefined
    const { node, entry } = peeked
    if (node === undefined) return 'unknown'
    const found = attributes.peek(node, entry)
    return found.kind === 'directory' ? folders.withInside(found) : found
  }

  /** Names of the root that depend on this one. */
  related(name: string): readonly string[] {
    return this.#deps.entries.related(name)
  }

  /** Folders of the root of which another version is to be shown. */
  outdated(): Iterable<NodeId> {
    return this.#deps.openFolders.outdated()
  }

  /** Differs when a node has content that was not written through it, or that may be other than what was read of it. */
  contentVersion(node: NodeId): string {
    return `${this.#deps.nodes.inRoot(node)?.version ?? 0} ${this.#deps.cache.timesTakenBack}`
  }

  /** Differs when the names in a directory do; undefined where that cannot be told. The root is for the listener to count. */
  directoryVersion(node: NodeId): string | undefined {
    if (node === ROOT) return ''
    const place = this.#deps.openFolders.placeNow(node)
    if (place?.item.type !== 'directory' || !this.isSteady(node)) return undefined
    const { children, mtimeMs, ctimeMs = mtimeMs } = place.item
    return children && `${place.open.folder.baseBag} ${ctimeMs} ${mtimeMs} ${children.size}`
  }
}
