import { DriveError, goneFile, noSuchFile } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import { isAnswered } from '../../intents/rules.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { FileNode, Nodes } from '../tree/nodes.ts'
import type { DriveSettings } from '../settings.ts'
import type { Entries } from './entries.ts'
import type { Kinds } from './kinds.ts'

interface RootNodesDeps {
  readonly nodes: Nodes
  readonly entries: Entries
  readonly kinds: Kinds
  readonly uploader: Uploader
  readonly folders: {
    /** Throws `not-empty` for a folder that something is in. */
    refuseFull(node: FileNode): Promise<void>
  }
}

/** Finds the nodes of the root, and refuses those that a change cannot have. */
export class RootNodes {
  readonly #deps: RootNodesDeps
  readonly #settings: Pick<DriveSettings, 'writeBack'>

  constructor(deps: RootNodesDeps, settings: Pick<DriveSettings, 'writeBack'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** The node of a name; rejects `not-found`. */
  async find(name: string): Promise<FileNode> {
    await this.#deps.entries.fresh()
    const node = this.#deps.entries.resolve(name) ?? (await this.#findZipped(name))
    if (node === undefined) throw noSuchFile()
    return node
  }

  /** A folder that the service lists as NAME.zip has its name once its head is here. */
  async #findZipped(name: string): Promise<FileNode | undefined> {
    const { kinds, entries } = this.#deps
    const zipped = entries.resolve(`${name}.zip`)
    if (kinds.isLearned(zipped?.entry)) return undefined
    await kinds.learnSoon(zipped?.entry)
    return entries.resolve(name)
  }

  /** A node as its name has it now: a bridge that knows nodes by their ids may not have looked at the name. */
  current(id: NodeId): FileNode {
    const node = this.#deps.nodes.inRoot(id)
    if (node === undefined) throw goneFile()
    if (node.name !== undefined && !node.isAside) this.#deps.entries.resolve(node.name)
    return node
  }

  /** Learns whether a name stands for a file or a folder, see `Kinds`. */
  async learnForChange(name: string): Promise<void> {
    const { kinds, entries } = this.#deps
    const node = entries.resolve(name) ?? entries.resolve(`${name}.zip`)
    await kinds.learnForChange(node?.entry)
  }

  /**
   * In mode through, what was stored a moment ago can be changed, and the change taken back, once it is seen. Where that
   * takes as long as a late DELETE may, the change goes on instead.
   */
  async untilSeen({ entry, name }: FileNode): Promise<void> {
    if (this.#settings.writeBack || entry?.kind !== 'pending' || !isAnswered(entry.intent)) return
    if (entry.intent.isAtRisk === true) return
    await this.#deps.uploader.finished(entry.intent.id)
    if (name !== undefined) this.#deps.entries.resolve(name)
  }

  /** Throws `is-a-directory`, after the kind is learned. */
  async refuseFolder(node: FileNode): Promise<void> {
    await this.#deps.kinds.learnForChange(node.entry)
    this.refuseKnownFolder(node)
  }

  /** As `refuseFolder`, where the caller has learned the kind. */
  refuseKnownFolder(node: FileNode): void {
    if (!node.isFolder) return
    throw new DriveError('is-a-directory', 'This is a folder.')
  }

  /** A folder may only take the place of an empty folder, a file only that of a file. */
  async checkReplacement(target: FileNode | undefined, isFolder: boolean): Promise<void> {
    const { folders } = this.#deps
    if (target === undefined) return
    if (!target.isFolder) {
      if (isFolder) throw new DriveError('not-a-directory', 'There is a file.')
      return
    }
    if (!isFolder) throw new DriveError('is-a-directory', 'There is a folder.')
    await folders.refuseFull(target)
  }
}
