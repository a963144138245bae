import { DriveError } from '../domain/errors.ts'
import { checkTypedName } from '../domain/names.ts'
import type { BagId, HandleId, IntentId, NodeId } from '../domain/ids.ts'
import type { BagFacts } from '../domain/record.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { AttributeChanges, Attributes, DirectoryEntry } from './attributes.ts'
import type { Committer } from './commit.ts'
import type { Entries } from './entries.ts'
import type { ExtendedAttributes } from './extended.ts'
import type { Files } from './files.ts'
import type { Folders } from './folder/folders.ts'
import type { OpenFolders } from './folder/open-folders.ts'
import type { Handles } from './handles.ts'
import type { KeyedLock } from '../domain/keyed-lock.ts'
import type { Kinds } from './kinds.ts'
import { refuseTrash, type NameChanges } from './name-changes.ts'
import { ROOT, type FileNode, type Nodes } from './nodes.ts'
import type { RootRoom } from './room-beside.ts'
import type { RootAttributes } from './root-attributes.ts'
import type { DriveSettings } from './settings.ts'
import type { Created, OpenOptions, Subtree } from './subtree.ts'

interface RootDeps {
  readonly nodes: Nodes
  readonly handles: Handles
  readonly names: KeyedLock<'names'>
  readonly rootRoom: RootRoom
  readonly attributes: RootAttributes
  readonly entries: Entries
  readonly kinds: Kinds
  readonly committer: Committer
  readonly changes: NameChanges
  readonly files: Files
  readonly folders: Folders
  readonly openFolders: OpenFolders
  readonly extended: ExtendedAttributes
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly facts: {
    get(bagId: BagId): BagFacts | undefined
    learn(bagId: BagId, facts: BagFacts): void
  }
}

/** How old the listing may be when a file is opened to append to it. */
const APPEND_LISTING_MS = 1_000

/** The root of the drive, its files, and the names of its folders. */
export class RootFiles implements Subtree {
  readonly #deps: RootDeps
  readonly #settings: Pick<DriveSettings, 'writeBack'>

  constructor(deps: RootDeps, settings: Pick<DriveSettings, 'writeBack'>) {
    this.#deps = deps
    this.#settings = settings
  }

  owns(node: NodeId): boolean {
    return node === ROOT || this.#deps.nodes.get(node) !== undefined
  }

  ownsHandle(handle: HandleId): boolean {
    return this.#deps.handles.has(handle)
  }

  /** Rejects `not-found` when nothing in the directory has this name. */
  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    this.#refuseNotRoot(parent)
    const node = await this.find(name)
    await this.#deps.kinds.learnSoon(node.entry)
    return this.#deps.attributes.of(node)
  }

  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    if (parent !== ROOT || !this.#deps.entries.freshNow()) return undefined
    const node = this.#deps.entries.resolve(name)
    if (node === undefined || !this.#deps.kinds.isLearned(node.entry)) return undefined
    return this.#deps.attributes.of(node)
  }

  async getAttributes(id: NodeId): Promise<Attributes> {
    if (id === ROOT) return Promise.resolve(this.#deps.attributes.root())
    const node = this.#node(id)
    if (node.name !== undefined) this.#deps.entries.resolve(node.name)
    return Promise.resolve(this.#deps.attributes.of(node))
  }

  /** When the size of a node last changed other than by writing here, in ms; 0 for never. */
  sizeChangedAtMs(id: NodeId): number {
    return this.#deps.nodes.get(id)?.sizeChangedAtMs ?? 0
  }

  /** chmod and utimens: kept on this machine, with the content when it waits, else with the facts of the bag. */
  async setAttributes(id: NodeId, changes: AttributeChanges): Promise<void> {
    if (id === ROOT) return
    const node = this.#node(id)
    await this.#deps.attributes.change(node, changes)
  }

  /** Cuts or lengthens a file; without a handle, what close would do follows at once. */
  async truncate(id: NodeId, length: number, handle?: HandleId): Promise<void> {
    const node = this.#node(id)
    if (handle !== undefined || node.isDraft) {
      await this.#deps.files.truncate(node, length)
      return
    }
    await this.#refuseFolderNow(node)
    const opened = await this.#deps.files.open(node, { writable: true, truncate: length === 0 })
    try {
      if (length !== 0) await this.#deps.files.truncate(node, length)
      await this.#deps.files.flush(opened)
    } finally {
      await this.#deps.files.release(opened)
    }
  }

  async readDirectory(id: NodeId): Promise<readonly DirectoryEntry[]> {
    if (id !== ROOT) throw new DriveError('not-a-directory', 'This is a file.')
    await this.#deps.entries.fresh()
    const listed = this.#listed()
    if (listed.every(({ kind }) => kind !== undefined)) return listed
    await this.#deps.kinds.learnAll(this.#deps.entries.tree())
    return this.#listed()
  }

  #listed(): readonly DirectoryEntry[] {
    const { entries, kinds } = this.#deps
    return Array.from(entries.listed(), ({ name, entry }) => ({ name, kind: kinds.shown(entry) }))
  }

  /** Makes a file and opens it for reading and writing; an existing one is opened as it is. */
  async create(parent: NodeId, name: string, mode: number): Promise<Created> {
    this.#refuseNotRoot(parent)
    refuseTrash(name)
    await this.#deps.entries.fresh()
    await this.learnForChange(name)
    return this.#deps.names.run('names', async () => {
      const existing = this.#deps.entries.resolve(name)
      if (existing === undefined) checkTypedName(name)
      else this.#refuseFolder(existing)
      const node = existing ?? this.#deps.nodes.add(name, name)
      try {
        const handle =
          existing === undefined
            ? await this.#deps.files.create(node, mode)
            : await this.#deps.files.open(node, { writable: true, truncate: false })
        return { attributes: this.#deps.attributes.of(node), handle: handle.id }
      } catch (error) {
        if (existing === undefined) this.#deps.nodes.unlink(node)
        throw error
      }
    })
  }

  async open(id: NodeId, options: OpenOptions): Promise<HandleId> {
    if (id === ROOT) throw new DriveError('is-a-directory', 'This is a directory.')
    const node = this.#node(id)
    if (options.writable || options.truncate) await this.#refuseFolderNow(node)
    if (options.append === true && !options.truncate) await this.#refuseOldVersion(node)
    const handle = await this.#deps.files.open(node, options)
    return handle.id
  }

  /**
   * What is appended belongs behind what another machine appended: the listing is asked where that costs
   * no promise (mode through). Throws `stale` when the name leads to another node by now.
   */
  async #refuseOldVersion(node: FileNode): Promise<void> {
    const { name } = node
    if (this.#settings.writeBack || name === undefined || node.isDraft) return
    await this.#deps.entries.youngerThan(APPEND_LISTING_MS)
    if (this.#deps.entries.resolve(name) !== node) {
      throw new DriveError('stale', 'Another machine has changed this file.')
    }
  }

  read(handle: HandleId, buffer: Uint8Array, position: number): number | Promise<number> {
    return this.#deps.files.read(this.#deps.handles.get(handle), buffer, position)
  }

  write(handle: HandleId, bytes: Uint8Array, position: number): number | Promise<number> {
    return this.#deps.files.write(this.#deps.handles.get(handle), bytes, position)
  }

  async flush(handle: HandleId): Promise<void> {
    await this.#deps.files.flush(this.#deps.handles.get(handle))
  }

  /**
   * The file that closing this handle would upload, when no other open file writes the same content. For the
   * kernel, a file that stands aside is the same as the one that has its name now.
   */
  uploadedOnClose(handle: HandleId): NodeId | undefined {
    const { handles, nodes } = this.#deps
    const { node, writable } = handles.get(handle)
    if (!writable || node.staged === undefined || writersOf(node) > 1) return undefined
    return nodes.findAside((other) => writersOf(other) > 0) === undefined ? node.id : undefined
  }

  async fsync(handle: HandleId): Promise<void> {
    await this.#deps.files.fsync(this.#deps.handles.get(handle))
  }

  async release(handle: HandleId): Promise<void> {
    await this.#deps.files.release(this.#deps.handles.get(handle))
  }

  /**
   * Removes a file: resolves when the service has deleted it (mode through) or the outbox has the
   * intent (mode back). With `mayBeReplaced` (the file is open) it resolves at once, see NameChanges.
   */
  async unlink(
    parent: NodeId,
    name: string,
    options: { readonly mayBeReplaced: boolean } = { mayBeReplaced: false },
  ): Promise<NodeId> {
    this.#refuseNotRoot(parent)
    const node = await this.find(name)
    // What cannot be read can be removed all the same.
    await this.learnForChange(name).catch(() => undefined)
    this.#refuseFolder(node)
    const intent = await this.#deps.names.run('names', () =>
      this.#deps.changes.unlink(node, options),
    )
    if (intent === undefined) return node.id
    if (options.mayBeReplaced) this.#deps.uploader.kick()
    else await this.settleOrRevert(intent.id, intent.supersedes.length === 0)
    return node.id
  }

  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    this.#refuseNotRoot(newParent)
    refuseTrash(newName)
    this.#refuseNotRoot(parent)
    const node = await this.find(name)
    for (const each of [name, newName]) await this.learnForChange(each)
    if (node.entry?.kind === 'pending' && node.entry.intent.changes !== undefined) {
      await this.#deps.uploader.finished(node.entry.intent.id)
    }
    await this.#deps.folders.settled(node)
    this.#deps.entries.resolve(name)
    const target = this.#deps.entries.resolve(newName)
    const isFolder = this.#deps.kinds.isFolder(node.entry)
    if (target !== node) {
      await this.checkReplacement(target, isFolder)
      await this.#deps.rootRoom.check(node, this.#deps.changes.bytesSentAgain(node, newName))
    }
    const before = { name: node.name, serviceName: node.serviceName, entry: node.entry }
    const intent = await this.#deps.names.run('names', () =>
      this.#deps.changes.rename(node, newName),
    )
    if (intent === undefined) return
    const isBag = intent.kind === 'put' && intent.content.from === 'bag'
    try {
      await this.settleOrRevert(intent.id, isBag && intent.supersedes.length === 0)
    } catch (error) {
      if (this.#deps.outbox.get(intent.id) === undefined) this.#takeBackName(node, before)
      throw error
    }
  }

  /** Open files of a rename that was taken back are what they were before it. */
  #takeBackName(
    node: FileNode,
    { name, serviceName, entry }: Pick<FileNode, 'name' | 'serviceName' | 'entry'>,
  ): void {
    const { nodes, entries } = this.#deps
    if (name === undefined || nodes.named(name) !== undefined) return
    nodes.rename(node, name, serviceName)
    node.entry = entry
    entries.resolve(name)
  }

  /** A folder may only take the place of an empty folder, a file only that of a file. */
  async checkReplacement(target: FileNode | undefined, isFolder: boolean): Promise<void> {
    const { kinds, folders } = this.#deps
    if (target === undefined) return
    if (!kinds.isFolder(target.entry)) {
      if (isFolder) throw new DriveError('not-a-directory', 'There is a file.')
      return
    }
    if (!isFolder) throw new DriveError('is-a-directory', 'There is a folder.')
    await folders.refuseFull(target)
  }

  /** A folder that is empty and stays on this machine until something is put into it. */
  async makeDirectory(parent: NodeId, name: string, mode: number): Promise<void> {
    this.#refuseNotRoot(parent)
    refuseTrash(name)
    await this.#deps.entries.fresh()
    await this.#deps.names.run('names', async () => {
      if (this.#deps.entries.resolve(name) !== undefined) {
        throw new DriveError('exists', 'There is something of this name.')
      }
      checkTypedName(name)
      await this.#deps.folders.make(name, mode)
    })
  }

  async removeDirectory(parent: NodeId, name: string): Promise<void> {
    this.#refuseNotRoot(parent)
    const node = await this.find(name)
    if (!this.#deps.kinds.isFolder(node.entry)) {
      throw new DriveError('not-a-directory', 'This is a file.')
    }
    await this.#deps.folders.refuseFull(node)
    this.#deps.openFolders.detach(node)
    const { changes, names } = this.#deps
    const intent = await names.run('names', () => changes.unlink(node, { mayBeReplaced: false }))
    if (intent !== undefined) {
      await this.settleOrRevert(intent.id, intent.supersedes.length === 0)
    }
  }

  makeSymlink(): Promise<void> {
    return Promise.reject(new DriveError('not-permitted', 'Links are kept inside folders only.'))
  }

  readSymlink(): Promise<string> {
    return Promise.reject(new DriveError('invalid', 'This is not a link.'))
  }

  #refuseFolder(node: FileNode): void {
    if (!this.#deps.kinds.isFolder(node.entry)) return
    throw new DriveError('is-a-directory', 'This is a folder.')
  }

  /** In mode through a change that holds no new content is taken back when the service refuses it. */
  async settleOrRevert(id: IntentId, revertible: boolean): Promise<void> {
    try {
      await this.#deps.committer.settle(id)
    } catch (error) {
      const latest = this.#deps.outbox.get(id)
      const lost = error instanceof DriveError && error.facts.answerLost === true
      if (revertible && !lost && latest?.phase === 'waiting') await this.#deps.outbox.remove(id)
      throw error
    }
  }

  listExtended(id: NodeId): readonly string[] {
    return id === ROOT ? [] : this.#deps.extended.list(this.#node(id))
  }

  getExtended(id: NodeId, name: string): string {
    if (id === ROOT) throw new DriveError('no-attribute', `There is no attribute ${name}.`)
    return this.#deps.extended.get(this.#node(id), name)
  }

  /** `user.bagfs.description` and `user.bagfs.kind`; others are refused as `unsupported`. */
  async setExtended(id: NodeId, name: string, value: string): Promise<void> {
    const which = this.#deps.extended.settable(name)
    if (which === undefined || id === ROOT) {
      throw new DriveError('unsupported', 'Only user.bagfs.description and .kind can be set.')
    }
    const node = this.#node(id)
    if (which === 'kind') {
      this.#deps.extended.setKind(node, value)
      return
    }
    if (node.staged?.isDraft === true) {
      node.staged.description = value
      return
    }
    // What is being promised has its description already.
    await this.#deps.committer.commit(node)
    await this.#deps.rootRoom.check(node, this.#deps.changes.bytesSentAgain(node))
    const intent = await this.#deps.names.run('names', () =>
      this.#deps.changes.describe(node, value),
    )
    if (intent !== undefined) await this.settleOrRevert(intent.id, true)
  }

  /** Learns whether a name stands for a file or a folder, see `Kinds`. */
  async learnForChange(name: string): Promise<void> {
    const { kinds, entries } = this.#deps
    const node = entries.resolve(name) ?? entries.resolve(`${name}.zip`)
    await kinds.learnForChange(node?.entry)
  }

  async #refuseFolderNow(node: FileNode): Promise<void> {
    await this.#deps.kinds.learnForChange(node.entry)
    this.#refuseFolder(node)
  }

  /** The node of a name; rejects `not-found`. */
  async find(name: string): Promise<FileNode> {
    await this.#deps.entries.fresh()
    const node = this.#deps.entries.resolve(name) ?? (await this.#findZipped(name))
    if (node === undefined) throw new DriveError('not-found', 'There is no such file.')
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

  #node(id: NodeId): FileNode {
    const node = this.#deps.nodes.get(id)
    if (node === undefined) throw new DriveError('not-found', 'This file is gone.')
    return node
  }

  #refuseNotRoot(parent: NodeId): void {
    if (parent !== ROOT) throw new DriveError('not-a-directory', 'This is a file.')
  }
}

function writersOf({ handles }: FileNode): number {
  return [...handles].filter(({ writable }) => writable).length
}
