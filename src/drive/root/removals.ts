import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { FactsAccess } from '../../domain/record.ts'
import { joined, type Base } from '../../intents/base.ts'
import { newDelete } from '../../intents/builders.ts'
import type { DeleteIntent, MovedTo } from '../../intents/intent.ts'
import { awaiting, wasSent } from '../../intents/rules.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { PinsStore } from '../../state/pins-store.ts'
import type { DriveSettings } from '../settings.ts'
import type { FileNode } from '../tree/nodes.ts'
import { baseOf } from './contents.ts'
import type { Entries } from './entries.ts'
import type { Kinds } from './kinds.ts'
import type { Puts } from './puts.ts'
import type { RootNames } from './root-names.ts'

interface RemovalsDeps {
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly entries: Entries
  readonly rootNames: RootNames
  readonly puts: Pick<Puts, 'isShared'>
  readonly kinds: Pick<Kinds, 'isLearned'>
  readonly folders: {
    /** Throws `not-empty` for a folder that something is in, `stale` where that would have to be loaded. */
    refuseFullNow(node: FileNode): void
  }
  readonly facts: Pick<FactsAccess, 'get'>
  readonly pinned: Pick<PinsStore, 'removed'>
  readonly clock: Clock
}

interface RemovalOptions extends Pick<DeleteIntent, 'movesOn'> {
  readonly mayBeReplaced: boolean
  /** Where what is removed moved to. */
  readonly after?: MovedTo
}

/** How long an unlink may turn out to be the first half of a replacement. A process that dies before it is over has promised nothing. */
const REPLACEMENT_WINDOW_MS = 1_000

/** Unlink in the root, and what may go there. Callers hold the lock of names while these run. */
export class Removals {
  readonly #deps: RemovalsDeps
  readonly #settings: Pick<DriveSettings, 'writeBack'>

  constructor(deps: RemovalsDeps, settings: Pick<DriveSettings, 'writeBack'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /**
   * Takes a name away. Answers the intent to wait for, if any. `mayBeReplaced` delays the DELETE a
   * moment: the bridge cannot tell an unlink of an open file from the first half of a rename over it.
   */
  async unlink(node: FileNode, options: RemovalOptions): Promise<DeleteIntent | undefined> {
    const base = this.baseOf(node)
    const name = this.#recordName(node)
    const shown = node.name
    this.refuseShared(node)
    this.#deps.rootNames.unlink(node)
    const intent = await this.#recordDelete(name, base, options)
    if (shown !== undefined) this.#deps.pinned.removed(shown)
    return intent
  }

  /** As `unlink`, of a name that was found to be a file. Throws `stale` when it may be none by now. */
  async unlinkFile(
    node: FileNode,
    name: string,
    options: { readonly mayBeReplaced: boolean },
  ): Promise<DeleteIntent | undefined> {
    this.refuseMoved(node, name)
    this.refuseOfKind(node, { isFolder: false })
    return this.unlink(node, options)
  }

  /** As `unlink`, of a name that was found to be an empty folder. Throws `stale` when it may be none by now. */
  async unlinkFolder(node: FileNode, name: string): Promise<DeleteIntent | undefined> {
    this.refuseMoved(node, name)
    this.refuseOfKind(node, { isFolder: true })
    return this.unlink(node, { mayBeReplaced: false })
  }

  async #recordDelete(
    name: string,
    base: Base,
    { mayBeReplaced, after, movesOn }: RemovalOptions,
  ): Promise<DeleteIntent | undefined> {
    const { outbox, entries, clock, uploader } = this.#deps
    const puts = base.supersedes.map((id) => outbox.get(id)).filter((put) => put !== undefined)
    const nothingSent = puts.every(
      (put) =>
        put.replaces.length === 0 &&
        put.supersedes.every((id) => outbox.get(id) === undefined) &&
        !uploader.isRunning(put.id) &&
        !wasSent(put),
    )
    const moved = [
      ...(after === undefined ? [] : [after]),
      ...puts.flatMap((put) => put.after ?? []),
    ]
    // What waits for such a put is told by the delete where the content went on to.
    const isPassedOn = moved.length > 0 && puts.some(({ id }) => awaiting(outbox, id).length > 0)
    if (base.replaces.length === 0 && nothingSent && !isPassedOn) {
      for (const put of puts) await outbox.remove(put.id, put)
      // One that the uploader took up meanwhile is still there.
      if (puts.every((put) => outbox.get(put.id) === undefined)) return undefined
    }
    const now = clock.now()
    const held = { phase: 'held', heldUntilMs: now + REPLACEMENT_WINDOW_MS } as const
    const intent = newDelete({
      id: outbox.nextId(),
      name,
      createdAtMs: now,
      ...base,
      uploaded: entries.uploadsOf(base.replaces),
      ...(moved.length === 0 ? {} : { after: moved }),
      ...(movesOn === undefined ? {} : { movesOn }),
      ...(mayBeReplaced ? held : {}),
    })
    await outbox.add(intent, { durable: this.#settings.writeBack || mayBeReplaced })
    return intent
  }

  /**
   * Throws `stale` where the name that was asked for leads to the node no more. The kernel lets go of a name when the program
   * that changes it is killed: another change of it may have come first.
   */
  refuseMoved(node: FileNode, name: string): void {
    if (this.#deps.entries.resolve(name) === node) return
    throw new DriveError('stale', 'The name leads to something else now.')
  }

  /**
   * What goes may only be a file, or an empty folder. That was looked at before, and another machine may have put
   * something else there meanwhile: so it is looked at once more in the moment in which it goes.
   */
  refuseOfKind(node: FileNode, { isFolder }: { readonly isFolder: boolean }): void {
    const { kinds, folders } = this.#deps
    const { entry, hasUnpromised } = node
    const isKnown = hasUnpromised || kinds.isLearned(entry)
    if (!isKnown || (!hasUnpromised && node.isFolder) !== isFolder)
      throw new DriveError('stale', 'The name leads to something else now.')
    if (isFolder) folders.refuseFullNow(node)
  }

  /**
   * What is replaced with a node. The put that stored a folder may be about to collect what was changed since: then the
   * folder would come back.
   */
  baseOf(node: FileNode): Base {
    const base = baseOf(node)
    const { entry } = node
    if (entry?.kind !== 'bag') return base
    const { bagId } = entry.record
    if (this.#deps.facts.get(bagId)?.kind !== 'folder') return base
    const puts = this.#deps.outbox
      .intents()
      .filter((put) => put.kind === 'put' && put.changes !== undefined && put.bagId === bagId)
    return joined(base, { replaces: [], supersedes: puts.map(({ id }) => id) })
  }

  /** Name at the service of what a node shows: what was sent under it must arrive before it is deleted. */
  #recordName(node: FileNode): string {
    const { entry } = node
    if (entry?.kind === 'bag') return entry.record.name
    const content = entry?.intent.content
    if (content?.from !== 'bag') return node.serviceName
    return this.#deps.entries.recordsOf(content.bagId)[0]?.name ?? node.serviceName
  }

  /** DELETE takes a bag away from every record: an entry that shares its bag cannot go alone. */
  refuseShared(node: FileNode): void {
    const { entry } = node
    if (entry?.kind !== 'bag' || !this.#deps.puts.isShared(entry.record.bagId)) return
    throw new DriveError('busy', 'Another file of the account is the same bag.', {
      hint: 'The service can only delete both: use `bagfs rm` with the bag id.',
    })
  }
}
