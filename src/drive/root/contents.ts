import type { BagCache } from '../../content/bag-cache.ts'
import { copyIfThere } from '../../disk/copy-if-there.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, fromFileSystem, isAbsent } from '../../domain/errors.ts'
import type { BagId } from '../../domain/ids.ts'
import { NOTHING, type Base } from '../../intents/base.ts'
import type { PutIntent } from '../../intents/intent.ts'
import type { FactsAccess } from '../../domain/record.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { Room } from '../space/room.ts'
import type { Source } from '../tree/source.ts'
import { copySource } from '../tree/copy-source.ts'
import { withDiskRoom } from '../space/with-disk-room.ts'
import { LocalFile } from '../tree/local-file.ts'
import { StagedFile, type GivenAttributes } from '../tree/staged-file.ts'

const UNCOPIED = 'Staged content cannot be copied'

interface ContentsDeps {
  readonly cache: BagCache
  readonly outbox: Outbox
  readonly facts: Pick<FactsAccess, 'get'>
  readonly clock: Clock
}

/** Where the bytes of an entry are: in the cache (or still at the service), or staged in the outbox. */
export class Contents {
  readonly #deps: ContentsDeps

  constructor(deps: ContentsDeps) {
    this.#deps = deps
  }

  /** The best known size: the true length once seen, else what the listing says. */
  sizeOf(entry: Entry): number {
    if (entry.kind === 'pending') {
      const { content } = entry.intent
      return content.from === 'bag'
        ? this.#bagSize(content.bagId, content.length)
        : (content.length ?? 0)
    }
    return this.#bagSize(entry.record.bagId, entry.record.size)
  }

  /** See `Attributes`. */
  allocatedOf(entry: Entry): number | undefined {
    if (entry.kind === 'bag') return this.#bagAllocated(entry.record.bagId)
    const { content } = entry.intent
    if (content.from === 'bag') return this.#bagAllocated(content.bagId)
    return content.from === 'staged' ? content.allocated : undefined
  }

  /** The cache is only asked about bags that were written here with holes. */
  #bagAllocated(bagId: BagId): number | undefined {
    const { facts, cache, outbox } = this.#deps
    const allocated = facts.get(bagId)?.allocated
    if (allocated === undefined) return undefined
    const isHere = cache.isComplete(bagId) || outbox.stagedAs(bagId) !== undefined
    return isHere ? allocated : undefined
  }

  /**
   * The bag that has the bytes of an entry, in a folder that is being changed those that are as before, and its size.
   * Undefined while they are nowhere but here.
   */
  bagOf(entry: Entry): { readonly bagId: BagId; readonly bytes: number } | undefined {
    if (entry.kind === 'bag') return { bagId: entry.record.bagId, bytes: this.sizeOf(entry) }
    const { content, changes } = entry.intent
    if (content.from === 'bag') return { bagId: content.bagId, bytes: this.sizeOf(entry) }
    const base = content.from === 'folder' ? changes?.base : undefined
    return base && { bagId: base, bytes: this.#bagSize(base, undefined) }
  }

  #bagSize(bagId: BagId, listed: number | undefined): number {
    return this.#deps.facts.get(bagId)?.length ?? this.#deps.cache.lengthOf(bagId) ?? listed ?? 0
  }

  open(entry: Entry): Source {
    if (entry.kind === 'bag') return this.#openBag(entry.record.bagId, entry.record.size)
    const { intent } = entry
    if (intent.content.from === 'bag') {
      return this.#openBag(intent.content.bagId, intent.content.length)
    }
    return this.#openStaged(intent)
  }

  #openBag(bagId: BagId, listed: number | undefined): Source {
    const staged = this.#stagedAs(bagId)
    const file = staged === undefined ? undefined : openIfThere(staged)
    if (file !== undefined) return file
    const hint = listed === undefined ? {} : { listedLength: listed }
    return this.#deps.cache.open(bagId, { ...hint, fromStart: true })
  }

  #openStaged(intent: PutIntent): Source {
    const { outbox } = this.#deps
    const file = openIfThere(outbox.contentPath(intent.id))
    if (file !== undefined) return file
    // Uploaded a moment ago: the content is the cache's now.
    const bagId = outbox.put(intent.id)?.bagId
    if (bagId !== undefined) return this.#openBag(bagId, intent.content.length)
    throw new DriveError('local-io', `The staged content of ${intent.name} is gone.`)
  }

  /** Where content of a bag is that was stored a moment ago: the cache does not have it yet. */
  #stagedAs(bagId: BagId): string | undefined {
    const { cache, outbox } = this.#deps
    return cache.isComplete(bagId) ? undefined : outbox.stagedAs(bagId)
  }

  async #copyBag(bagId: BagId, path: string): Promise<void> {
    const staged = this.#stagedAs(bagId)
    const isCopied = staged !== undefined && (await copyIfThere(staged, path, UNCOPIED))
    if (!isCopied) await this.#deps.cache.copyTo(bagId, path)
  }

  /**
   * New content for a node, empty or a copy of what the node has now; `opened` is that, where it is open. The node may be
   * renamed or stored, or get other attributes, while the copy is made: so what it is counts once that has ended.
   */
  async stage(
    node: FileNode,
    options: {
      readonly empty: boolean
      readonly attributes: () => GivenAttributes
      readonly room: Room
    },
    opened: Source | undefined,
  ): Promise<StagedFile> {
    const draft = this.#deps.outbox.createDraft()
    try {
      const { room } = options
      if (!options.empty) {
        const copy = () => this.copyTo(node, draft.path, opened)
        await withDiskRoom(copy, () => room.makeDiskRoom(this.#bytesOf(node)))
      }
      const settings = { attributes: options.attributes(), nowMs: this.#deps.clock.now(), room }
      // Its name may have changed while it was copied: then another intent has what was copied.
      return new StagedFile(draft, baseOf(node), settings).retain()
    } catch (error) {
      await this.#deps.outbox.discardDraft(draft.id)
      throw error
    }
  }

  #bytesOf({ staged, entry }: FileNode): number {
    return staged?.size ?? (entry === undefined ? 0 : this.sizeOf(entry))
  }

  /** Writes what a node has now to a new file. */
  async copyTo(node: FileNode, path: string, opened?: Source): Promise<void> {
    if (node.staged !== undefined) {
      await node.staged.copyTo(path)
      return
    }
    const { entry } = node
    if (entry === undefined) return
    if (entry.kind === 'bag') {
      await this.#copyBag(entry.record.bagId, path)
    } else if (entry.intent.content.from === 'bag') {
      await this.#copyBag(entry.intent.content.bagId, path)
    } else {
      await this.#copyStaged(entry.intent, path, opened)
    }
  }

  async #copyStaged(intent: PutIntent, path: string, opened: Source | undefined): Promise<void> {
    const { outbox, cache } = this.#deps
    const staged = outbox.contentPath(intent.id)
    if (await copyIfThere(staged, path, UNCOPIED)) return
    const bagId = outbox.put(intent.id)?.bagId
    if (bagId !== undefined) await cache.copyTo(bagId, path)
    // Unlinked or replaced before it was sent: the open file has the only copy.
    else if (opened !== undefined) await copySource(opened, path)
    else throw new DriveError('local-io', `The staged content of ${intent.name} is gone.`)
  }
}

function openIfThere(path: string): LocalFile | undefined {
  try {
    return new LocalFile(path)
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw fromFileSystem(error, 'Staged content cannot be opened')
  }
}

/** What new content of a node will take the place of. */
export function baseOf(node: FileNode): Base {
  if (node.staged?.hasUnpromised === true) return node.staged.base
  return node.entry === undefined ? NOTHING : baseOfEntry(node.entry)
}

/** What new content that was made from an entry will take the place of. */
export function baseOfEntry(entry: Entry): Base {
  return entry.kind === 'bag'
    ? { replaces: [entry.record.bagId], supersedes: [] }
    : { replaces: [], supersedes: [entry.intent.id] }
}
