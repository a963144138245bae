import type { IntentId } from '../../domain/ids.ts'
import type { PutContent, PutIntent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { Conflicts } from './conflicts.ts'
import type { Entries } from './entries.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { Puts } from './puts.ts'
import type { DriveSettings } from '../settings.ts'
import type { StagedFile } from '../tree/staged-file.ts'

interface CommitterDeps {
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly entries: Entries
  readonly puts: Puts
  readonly conflicts: Conflicts
  readonly names: KeyedLock<'names'>
  readonly nodeLocks: KeyedLock<FileNode>
  readonly log: Logger
}

/** Turns content that was written here into an intent, and waits for the service where it should. */
export class Committer {
  readonly #deps: CommitterDeps
  readonly #settings: Pick<DriveSettings, 'writeBack' | 'description'>

  constructor(deps: CommitterDeps, settings: Pick<DriveSettings, 'writeBack' | 'description'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** What close and fsync do: resolves when what was written is as safe as the mode promises. */
  async commitAndWait(node: FileNode): Promise<void> {
    const intent = await this.commit(node)
    if (intent !== undefined) await this.secure(intent.id)
  }

  /** In mode through: one try now; its failure is the caller's. */
  async secure(id: IntentId): Promise<void> {
    const intent = this.#deps.outbox.get(id)
    if (intent?.phase !== 'waiting') return
    if (this.#settings.writeBack) this.#deps.uploader.kickBehind()
    else await this.#deps.uploader.attempt(id)
  }

  /**
   * Records the content of a node in the outbox. Answers the intent that holds it, also when an
   * earlier call made it; undefined when nothing was written or the node has no name any more.
   */
  async commit(node: FileNode): Promise<PutIntent | undefined> {
    const { names, nodeLocks } = this.#deps
    if (!node.hasUnpromised) return this.#promised(node)
    // What takes long is done before names are held, and is at hand then.
    await nodeLocks.run(node, async () => node.staged?.sha256())
    return names.run('names', () => this.commitNamed(node))
  }

  /** As `commit`, for a caller that holds names: no name changes between the look at it and the promise. */
  async commitNamed(node: FileNode): Promise<PutIntent | undefined> {
    return this.#deps.nodeLocks.run(node, async () => {
      const { staged, name } = node
      const isNew = staged?.hasUnpromised === true && name !== undefined
      return isNew ? this.#record(node, staged) : this.#promised(node)
    })
  }

  #promised({ staged, name }: FileNode): PutIntent | undefined {
    return staged === undefined || name === undefined ? undefined : this.#deps.outbox.put(staged.id)
  }

  /** What is promised is the content of this moment: a write that comes meanwhile waits, and copies it. */
  async #record(node: FileNode, staged: StagedFile): Promise<PutIntent> {
    staged.refuseHalf()
    staged.freeze()
    try {
      const intent = await this.#promise(node, staged)
      staged.hasUnpromised = false
      staged.room.giveBack()
      await this.#absorb(intent.id)
      this.#deps.entries.promised(node)
      return intent
    } finally {
      staged.thaw()
    }
  }

  /** What it takes the place of is not needed once it is on the platter; no close waits for that. */
  async #absorb(id: IntentId): Promise<void> {
    const { outbox, uploader, log } = this.#deps
    if (!this.#settings.writeBack) return uploader.absorb(id)
    if (outbox.put(id)?.supersedes.length === 0) return
    outbox.sync
      .passed()
      .then(() => uploader.absorb(id))
      .catch((error: unknown) => {
        log.error({ intent: id, error: String(error) }, 'What was replaced stays behind.')
      })
  }

  async #promise(node: FileNode, staged: StagedFile): Promise<PutIntent> {
    const { puts, conflicts } = this.#deps
    const sha256 = await staged.sha256()
    const { serviceName } = node
    const conflict = conflicts.find(serviceName, staged.base)
    const what = {
      description: staged.description ?? this.#descriptionOf(node),
      ...staged.attributes,
      content: contentOf(staged, sha256),
    }
    const intent = await puts.add(serviceName, staged.base, what, staged.id)
    if (conflict !== undefined) conflicts.meet(intent, conflict)
    return intent
  }

  /** An overwrite keeps the description of what it replaces. */
  #descriptionOf(node: FileNode): string {
    const { entry } = node
    if (entry === undefined) return this.#settings.description
    return entry.kind === 'bag' ? entry.record.description : entry.intent.description
  }
}

function contentOf({ size: length, allocated }: StagedFile, sha256: string): PutContent {
  const holes = allocated === undefined ? {} : { allocated }
  return { from: 'staged', length, sha256, ...holes }
}
