import type { BagCache } from '../../content/bag-cache.ts'
import type { BagReader } from '../../content/bag-reader.ts'
import { keptOf, type KeptAttributes } from '../../domain/attributes.ts'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import { withoutZip } from '../../domain/folder-names.ts'
import type { BagId, NodeId } from '../../domain/ids.ts'
import { openArchive, type Archive, type ArchiveLimits } from '../../zip/archive.ts'
import { blockBuffered } from '../../zip/block-buffer.ts'
import { readLinkTargets } from '../../zip/links.ts'
import type { ArchiveNode, DirectoryNode } from '../../zip/tree.ts'
import type { AccessTimesStore } from '../../state/access-times-store.ts'
import type { Accesses } from '../tree/accesses.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { LocalPart, LocalPartsStore } from '../../state/local-parts-store.ts'
import { AccessTimes } from './access-times.ts'
import { Children, isSpecial, itemsOf, pathOfItem, type DirectoryItem, type Item } from './items.ts'

export interface FolderDeps {
  readonly cache: BagCache
  readonly limits: ArchiveLimits
  readonly nextNode: () => NodeId
  /** What never leaves this machine, by the name of the folder. */
  readonly localParts: Pick<LocalPartsStore, 'of' | 'set'>
  readonly accessTimes: Pick<AccessTimesStore, 'of' | 'set'>
  readonly accesses: Accesses
  /** Told of each item, so that it is found by its id. */
  readonly register: (item: Item) => void
  readonly unregister: (item: Item) => void
}

/** A zip at the service: the one that a folder's unchanged content is in, or another version of it. */
export interface OpenZip {
  readonly bagId: BagId
  readonly archive: Archive
  readonly reader: BagReader
}

const BLOCK_BYTES = 128 * 1024
/** Blocks that are kept in memory for each folder. */
const BLOCKS = 32

/** A folder bag as a tree of items, made from its zip as programs look into it. */
export class Folder {
  readonly node: FileNode
  readonly top: DirectoryItem
  readonly accessTimes: AccessTimes
  readonly #deps: FolderDeps
  #base: OpenZip | undefined
  /** Zips of before that open files still read. */
  readonly #oldZips: OpenZip[] = []
  /** Items that something is kept of on this machine only; `keepLocalParts` takes out those that are gone. */
  readonly #localParts = new Set<Item>()
  /** Open files of this folder. */
  openFiles = 0
  /** Those of them that are only read. */
  openReaders = 0
  #isClosed = false

  constructor(deps: FolderDeps, node: FileNode, kept: KeptAttributes) {
    this.#deps = deps
    this.node = node
    this.top = {
      type: 'directory',
      id: node.id,
      parent: undefined,
      name: '',
      ...keptOf(kept),
      children: undefined,
      archived: undefined,
    }
    const name = (): string => node.serviceName
    this.accessTimes = new AccessTimes({ ...deps, top: this.top, name })
  }

  get baseBag(): BagId | undefined {
    return this.#base?.bagId
  }

  get base(): OpenZip | undefined {
    return this.#base
  }

  get archive(): Archive | undefined {
    return this.#base?.archive
  }

  /**
   * Throws `stale` once another version has taken the place of this one, or the folder is gone. What then changed this tree
   * would change the other version, by what was not in it.
   */
  refuseClosed(): void {
    if (this.#isClosed) throw new DriveError('stale', 'The folder has changed meanwhile.')
  }

  /** The bag of a zip that is open; undefined for others. */
  bagOf(archive: Archive): BagId | undefined {
    if (this.#base?.archive === archive) return this.#base.bagId
    return this.#oldZips.find((zip) => zip.archive === archive)?.bagId
  }

  /** Reads the tree of a bag, which the folder shows from now on; undefined for a folder made here. */
  async load(bagId: BagId | undefined): Promise<void> {
    this.refuseClosed()
    this.forgetTree()
    this.#base = bagId === undefined ? undefined : await this.openZip(bagId)
    this.top.archived = this.#base?.archive.root
    if (this.#base === undefined) this.top.children = new Children()
  }

  /** What is here of the base is to be found by the next process: the base may be deleted by then. */
  keepBase(): void {
    this.#base?.reader.keep()
  }

  /** Takes a new zip of the same content in place of the old one; items are led to it by `remap`. */
  async rebase(bagId: BagId, remap: (archive: Archive) => void): Promise<void> {
    const base = await this.openZip(bagId)
    const old = this.#base
    this.#base = base
    remap(base.archive)
    if (old !== undefined) this.#oldZips.push(old)
    this.closeOldZips()
  }

  /** Reads the tree of a bag; the caller closes its reader. What the disk has damaged since an earlier process comes anew. */
  async openZip(bagId: BagId): Promise<OpenZip> {
    const { cache } = this.#deps
    try {
      return await this.#openZip(bagId)
    } catch (error) {
      if (!isDriveError(error, 'corrupt') || cache.isTrusted(bagId)) throw error
      await cache.check(bagId)
      if (cache.isComplete(bagId)) throw error
      return this.#openZip(bagId)
    }
  }

  async #openZip(bagId: BagId): Promise<OpenZip> {
    const reader = this.#deps.cache.open(bagId)
    try {
      const length = await reader.length()
      const read = (bytes: Uint8Array, position: number, signal?: AbortSignal): Promise<number> =>
        reader.read(bytes, position, signal)
      const readNow = (bytes: Uint8Array, position: number): number | undefined =>
        reader.readNow(bytes, position)
      const source = blockBuffered(
        { length, read, readNow },
        { blockBytes: BLOCK_BYTES, maxBlocks: BLOCKS },
      )
      const folderName = withoutZip(this.node.serviceName)
      const archive = await openArchive(source, { limits: this.#deps.limits, folderName })
      this.refuseClosed()
      return { bagId, archive, reader }
    } catch (error) {
      reader.close()
      throw error
    }
  }

  /** What is in a directory; made from the zip at the first look. Rejects `stale`, see `refuseClosed`. */
  async children(directory: DirectoryItem): Promise<Children> {
    if (directory.children !== undefined) return directory.children
    const { archived } = directory
    const archive = this.#base?.archive
    if (archive !== undefined && archived !== undefined) {
      await readLinkTargets(archive, archived.children.values())
    }
    this.refuseClosed()
    directory.children ??= this.#childrenOf(directory, archived, archive)
    this.accessTimes.place(directory)
    return directory.children
  }

  #childrenOf(
    parent: DirectoryItem,
    archived: DirectoryNode | undefined,
    archive: Archive | undefined,
  ): Children {
    const children = new Children()
    if (archived === undefined || archive === undefined) return children
    for (const node of archived.children.values()) {
      children.set(node.name, this.#itemOf(parent, node, archive))
    }
    return children
  }

  #itemOf(parent: DirectoryItem, node: ArchiveNode, archive: Archive): Item {
    const { name } = node
    const base = { id: this.#deps.nextNode(), parent, name, ...keptOf(node) }
    const item = itemOf(base, node, archive)
    this.#deps.register(item)
    return item
  }

  /** The tree is loaded: what only this machine has comes to its places, where these are still there. */
  async placeLocalParts(): Promise<void> {
    for (const { path, special, extended } of this.#deps.localParts.of(this.node.serviceName)) {
      const names = path.split('/')
      const name = names.pop() ?? ''
      const parent = await this.#directoryAt(names)
      if (parent?.children === undefined) continue
      const item = parent.children.get(name)
      if (special === undefined) {
        if (item !== undefined) this.noteLocalPart(Object.assign(item, { extended }))
      } else if (item === undefined) {
        const { kind, ...node } = special
        const base = { id: this.#deps.nextNode(), parent, name }
        this.add(parent, parent.children, { ...base, ...node, type: kind })
      }
    }
    this.accessTimes.begin()
  }

  async #directoryAt(names: readonly string[]): Promise<DirectoryItem | undefined> {
    let at = this.top
    for (const name of names) {
      const next = (await this.children(at)).get(name)
      if (next?.type !== 'directory') return undefined
      at = next
    }
    await this.children(at)
    return at
  }

  /** Something of an item is of this machine only. */
  noteLocalPart(item: Item): void {
    this.#localParts.add(item)
  }

  /** Writes down what only this machine has, by the paths of now. */
  keepLocalParts(): void {
    const parts: LocalPart[] = []
    for (const item of this.#localParts) {
      const path = pathOfItem(item, this.top)
      if (path === undefined) this.#localParts.delete(item)
      else parts.push({ path, ...localPartOf(item) })
    }
    this.#deps.localParts.set(this.node.serviceName, parts)
    this.accessTimes.noteMoved()
  }

  /** Adds an item that was made here. */
  add(directory: DirectoryItem, children: Children, item: Item): void {
    if (isSpecial(item) || item.extended !== undefined) this.noteLocalPart(item)
    item.parent = directory
    children.set(item.name, item)
    this.#deps.register(item)
  }

  /** Adds an item that no name leads to yet. */
  hold(item: Item): void {
    this.#deps.register(item)
  }

  nextNode(): NodeId {
    return this.#deps.nextNode()
  }

  forget(item: Item): void {
    this.#deps.unregister(item)
  }

  /** Lets go of all items; they are made again from the base at the next look. */
  forgetTree(): void {
    this.accessTimes.end()
    for (const item of itemsOf(this.top)) {
      const isKept = item === this.top || (item.type === 'file' && item.isAside === true)
      if (!isKept) this.#deps.unregister(item)
    }
    this.top.children = undefined
    this.#localParts.clear()
  }

  /** The names of open files mean what another machine stored: they are in no folder any more, and are read to their end. */
  setOpenFilesAside(): void {
    for (const item of itemsOf(this.top)) {
      if (item.type !== 'file' || item.handles === 0) continue
      item.isAside = true
      item.parent = undefined
    }
  }

  /** The folder goes as a whole: what is in it and open is in no folder any more. */
  letGoOfItems(): void {
    for (const item of this.top.children?.values() ?? []) item.parent = undefined
  }

  closeOldZips(): void {
    if (this.openFiles > 0) return
    for (const { reader } of this.#oldZips.splice(0)) reader.close()
  }

  /** Open files can be read to their end; all else is let go of. */
  close(): void {
    this.#isClosed = true
    if (this.#base !== undefined) this.#oldZips.push(this.#base)
    this.#base = undefined
    this.forgetTree()
    this.closeOldZips()
  }
}

function itemOf(
  base: KeptAttributes & { id: NodeId; parent: DirectoryItem; name: string },
  node: ArchiveNode,
  archive: Archive,
): Item {
  if (node.type === 'directory') {
    return { ...base, type: 'directory', children: undefined, archived: node }
  }
  if (node.type === 'symlink' && node.linkTarget !== undefined) {
    return { ...base, type: 'symlink', target: node.linkTarget }
  }
  return { ...base, type: 'file', content: { from: 'archive', archive, node }, handles: 0 }
}

function localPartOf(item: Item): Omit<LocalPart, 'path'> {
  if (!isSpecial(item)) return { extended: item.extended }
  return { special: { kind: item.type, device: item.device, ...keptOf(item) } }
}
