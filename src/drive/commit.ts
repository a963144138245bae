import type { Clock } from '../domain/clock.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../domain/intent.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { Entries } from './entries.ts'
import type { KeyedLock } from '../domain/keyed-lock.ts'
import type { FileNode } from './nodes.ts'
import { classifyName } from './save-steps.ts'
import type { DriveSettings } from './settings.ts'
import type { Base, StagedFile } from './staged-file.ts'

interface CommitterDeps {
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly entries: Entries
  readonly nodeLocks: KeyedLock<FileNode>
  readonly clock: Clock
}

/** Turns content that was written here into an intent, and waits for the service where it should. */
export class Committer {
  readonly #deps: CommitterDeps
  readonly #settings: DriveSettings

  constructor(deps: CommitterDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /** What close and fsync do: resolves when what was written is as safe as the mode promises. */
  async commitAndWait(node: FileNode): Promise<void> {
    const intent = await this.commit(node)
    if (intent !== undefined) await this.settle(intent.id)
  }

  /** In mode through: one try now; its failure is the caller's. */
  async settle(id: IntentId): Promise<void> {
    const intent = this.#deps.outbox.get(id)
    if (intent?.phase !== 'waiting') return
    if (this.#settings.writeBack) this.#deps.uploader.kick()
    else await this.#deps.uploader.attempt(id)
  }

  /**
   * Records the content of a node in the outbox. Answers the intent that holds it, also when an
   * earlier call made it; undefined when nothing was written or the node has no name any more.
   */
  async commit(node: FileNode): Promise<PutIntent | undefined> {
    return this.#deps.nodeLocks.run(node, async () => {
      const { staged, name } = node
      if (staged === undefined || name === undefined) return undefined
      if (!staged.dirty) {
        const earlier = this.#deps.outbox.get(staged.id)
        return earlier?.kind === 'put' ? earlier : undefined
      }
      return this.#record(node, staged)
    })
  }

  async #record(node: FileNode, staged: StagedFile): Promise<PutIntent> {
    const { outbox, uploader } = this.#deps
    staged.refuseHalf()
    const size = staged.size
    const sha256 = await staged.sha256()
    const intent = this.#intentOf(node, staged, { size, sha256 })
    const durable = this.#settings.writeBack || intent.phase !== 'waiting'
    await outbox.add(intent, { durable })
    staged.dirty = false
    staged.room.giveBack()
    await this.dropMergedDeletes(intent)
    await uploader.absorb(intent.id)
    this.#deps.entries.resolve(node.name ?? '')
    return intent
  }

  #intentOf(
    node: FileNode,
    staged: StagedFile,
    content: { readonly size: number; readonly sha256: string },
  ): PutIntent {
    const now = this.#deps.clock.now()
    const base = this.withPendingDelete(node.serviceName, staged.base)
    return {
      version: 1,
      kind: 'put',
      id: staged.id,
      name: node.serviceName,
      createdAtMs: now,
      description: staged.description ?? this.#descriptionOf(node),
      mode: staged.mode,
      mtimeMs: staged.mtime,
      content: { from: 'staged', length: content.size, sha256: content.sha256 },
      replaces: base.replaces.filter((bagId) => !this.isShared(bagId)),
      supersedes: base.supersedes,
      namesakes: this.namesakesOf(node.serviceName),
      ...this.phaseFor(node.serviceName),
    }
  }

  /** Phase of new content under this name, and how long it is held. */
  phaseFor(name: string): Pick<PutIntent, 'phase' | 'heldUntilMs' | 'sentAtMs'> {
    const now = this.#deps.clock.now()
    switch (classifyName(name)) {
      case 'junk':
        return { phase: 'local' }
      case 'step':
        return { phase: 'held', heldUntilMs: now + this.#settings.holdMs }
      case 'plain':
      case 'trash':
        return this.#settings.writeBack ? { phase: 'waiting' } : { phase: 'waiting', sentAtMs: now }
    }
  }

  /** A delete of this name that was not sent yet becomes part of the replacement. */
  withPendingDelete(name: string, base: Base): Base {
    const deletes = this.#unsentDeletes(name)
    const removed = deletes.flatMap((intent) => intent.replaces)
    const superseded = deletes.flatMap((intent) => intent.supersedes)
    return {
      replaces: [...new Set([...base.replaces, ...removed])],
      supersedes: [...new Set([...base.supersedes, ...superseded])],
    }
  }

  #unsentDeletes(name: string) {
    const { outbox, uploader } = this.#deps
    return outbox
      .intents()
      .filter(
        (intent) =>
          intent.kind === 'delete' &&
          intent.name === name &&
          (intent.phase === 'waiting' || intent.phase === 'held') &&
          !uploader.isRunning(intent.id),
      )
  }

  /** Forgets the unsent deletes that `withPendingDelete` made part of this put. */
  async dropMergedDeletes(put: PutIntent): Promise<void> {
    for (const intent of this.#unsentDeletes(put.name)) {
      const isMerged =
        intent.replaces.every((bagId) => put.replaces.includes(bagId)) &&
        intent.supersedes.every((id) => put.supersedes.includes(id))
      if (isMerged) await this.#deps.outbox.remove(intent.id, intent)
    }
  }

  /** True when another record of the listing is the same bag: deleting it would take that too. */
  isShared(bagId: BagId): boolean {
    return this.#deps.entries.tree().usesOf(bagId) > 1
  }

  namesakesOf(name: string): readonly BagId[] {
    return this.#deps.entries
      .records()
      .filter((record) => record.name === name)
      .map((record) => record.bagId)
  }

  /** An overwrite keeps the description of what it replaces. */
  #descriptionOf(node: FileNode): string {
    const { entry } = node
    if (entry === undefined) return this.#settings.description
    return entry.kind === 'bag' ? entry.record.description : entry.intent.description
  }
}
