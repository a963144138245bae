import { DriveError, isDriveError } from '../../domain/errors.ts'
import { checkTypedName } from '../../domain/names.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { AttributeChanges, SpecialNode } from '../../domain/attributes.ts'
import type { Attributes, DirectoryEntry } from '../tree/attributes.ts'
import type { Committer } from './commit.ts'
import type { Entries } from './entries.ts'
import type { BagAttributes } from './bag-attributes.ts'
import type { Files } from './files.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Kinds } from './kinds.ts'
import type { NameChanges } from './name-changes.ts'
import type { Removals } from './removals.ts'
import { ROOT, type FileNode, type Nodes } from '../tree/nodes.ts'
import type { OpenFile } from '../tree/open-file.ts'
import type { Puts } from './puts.ts'
import type { Renames } from './renames.ts'
import type { RootNames } from './root-names.ts'
import type { RootNodes } from './root-nodes.ts'
import { refuseTrash } from './save-steps.ts'
import { secureChange } from './secure.ts'
import type { RootRoom } from './room-beside.ts'
import type { RootAttributes } from './root-attributes.ts'
import type { DriveSettings } from '../settings.ts'
import type { Created, CreateOptions, Home, MadeAttributes, OpenOptions } from '../tree/home.ts'

/** What the root asks of the inside of its folders. */
export interface InsideOfFolders {
  /** Throws `not-empty` for a folder that something is in. */
  refuseFull(node: FileNode): Promise<void>
  /** Starts an empty folder; the caller holds the lock of names. */
  make(name: string, made: MadeAttributes): Promise<void>
  /** The folder has lost its name: open files in it live on. */
  detach(node: FileNode): void
}

interface RootDeps {
  readonly nodes: Nodes
  readonly rootNames: RootNames
  readonly names: KeyedLock<'names'>
  readonly rootNodes: RootNodes
  readonly rootRoom: RootRoom
  readonly renames: Renames
  readonly attributes: RootAttributes
  readonly entries: Entries
  readonly kinds: Kinds
  readonly committer: Committer
  readonly removals: Removals
  readonly changes: NameChanges
  readonly files: Files
  readonly folders: InsideOfFolders
  readonly extended: BagAttributes
  readonly outbox: Outbox
  readonly puts: Puts
  readonly uploader: Uploader
  readonly log: Logger
}

/** How old the listing may be when a file is opened to append to it. */
const APPEND_LISTING_MS = 1_000

/** The root of the drive, its files, and the names of its folders. */
export class RootHome implements Home {
  readonly #deps: RootDeps
  readonly #settings: Pick<DriveSettings, 'writeBack'>

  constructor(deps: RootDeps, settings: Pick<DriveSettings, 'writeBack'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Rejects `not-found` when nothing in the directory has this name. */
  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    this.#refuseNotRoot(parent)
    const node = await this.#deps.rootNodes.find(name)
    await this.#deps.kinds.learnSoon(node.entry)
    return this.#deps.attributes.of(node)
  }

  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    if (parent !== ROOT || !this.#deps.entries.freshNow()) return undefined
    const node = this.#deps.entries.resolve(name)
    if (node === undefined || !this.#deps.kinds.isLearned(node.entry)) return undefined
    return this.#deps.attributes.of(node)
  }

  /** A folder may be a new bag since it was found: it must not turn into a file until that is looked at. */
  async getAttributes(id: NodeId): Promise<Attributes> {
    if (id !== ROOT) await this.#deps.kinds.learnSoon(this.#deps.rootNodes.current(id).entry)
    if (id === ROOT) return this.#deps.attributes.root()
    return this.#deps.attributes.of(this.#deps.rootNodes.current(id))
  }

  /** chmod and utimens: kept on this machine, with the content when it waits, else with the facts of the bag. */
  async setAttributes(id: NodeId, changes: AttributeChanges): Promise<void> {
    if (id === ROOT) return
    const node = this.#deps.rootNodes.current(id)
    await this.#deps.attributes.change(node, changes)
  }

  /** Cuts or lengthens a file; what close would do follows at once. */
  async truncate(id: NodeId, length: number): Promise<void> {
    const node = this.#deps.rootNodes.current(id)
    if (!node.hasUnpromised) await this.#deps.rootNodes.refuseFolder(node)
    await this.#deps.files.truncate(node, length)
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

  /**
   * Makes a file and opens it for reading and writing; an existing one is opened as it is. What is appended belongs
   * behind what another machine has stored under this name meanwhile: so the listing is asked first, as in `open`.
   */
  async create(
    parent: NodeId,
    name: string,
    made: MadeAttributes,
    options: CreateOptions,
  ): Promise<Created> {
    this.#refuseNotRoot(parent)
    refuseTrash(name)
    const looksFirst = options.append === true && !this.#settings.writeBack
    if (looksFirst) await this.#deps.entries.youngerThan(APPEND_LISTING_MS)
    else await this.#deps.entries.fresh()
    await this.#deps.rootNodes.learnForChange(name)
    const { node, opening } = await this.#deps.names.run('names', async () => {
      const existing = this.#deps.entries.resolve(name)
      if (existing === undefined) return this.#createNew(name, made)
      this.#deps.rootNodes.refuseKnownFolder(existing)
      const how = { ...options, writable: true, truncate: false }
      return { node: existing, opening: this.#deps.files.open(existing, how) }
    })
    // To open one that is there may wait for the service, which must not hold names.
    const file = await opening
    return { attributes: this.#deps.attributes.of(node), file }
  }

  async #createNew(
    name: string,
    made: MadeAttributes,
  ): Promise<{ readonly node: FileNode; readonly opening: Promise<OpenFile> }> {
    checkTypedName(name)
    const node = this.#deps.rootNames.addNew(name)
    try {
      const file = await this.#deps.files.create(node, made)
      return { node, opening: Promise.resolve(file) }
    } catch (error) {
      this.#deps.rootNames.unlink(node)
      throw error
    }
  }

  async createNameless(parent: NodeId, made: MadeAttributes): Promise<Created> {
    this.#refuseNotRoot(parent)
    const { rootNames, files, attributes } = this.#deps
    const node = rootNames.addNameless()
    const file = await files.create(node, made)
    return { attributes: attributes.of(node), file }
  }

  async link(file: OpenFile, parent: NodeId, name: string): Promise<Attributes> {
    const node = this.#deps.nodes.inRoot(file.nodeId ?? ROOT)
    if (node === undefined) throw new DriveError('cross-device', 'It was made in a folder.')
    if (node.name !== undefined) throw new DriveError('not-permitted', 'It has a name.')
    await this.#make(parent, name, () => this.#deps.changes.giveName(node, name))
    return this.#deps.attributes.of(node)
  }

  async open(id: NodeId, options: OpenOptions): Promise<OpenFile> {
    if (id === ROOT) throw new DriveError('is-a-directory', 'This is a directory.')
    const node = this.#deps.rootNodes.current(id)
    if (node.isAside || this.#deps.nodes.get(id) !== node) {
      throw new DriveError('stale', 'It is another file now.')
    }
    if (options.writable || options.truncate) await this.#deps.rootNodes.refuseFolder(node)
    if (options.append === true && !options.truncate) await this.#refuseOldVersion(node)
    return this.#openNewest(node, options)
  }

  /** Another machine may have replaced the version that was found: then the new one is opened. */
  async #openNewest(node: FileNode, options: OpenOptions): Promise<OpenFile> {
    const { entries, files } = this.#deps
    const { entry, name } = node
    try {
      return await files.open(node, options)
    } catch (error) {
      if (!isDriveError(error, 'gone') || name === undefined) throw error
      await entries.youngerThan(0)
      if (entries.resolve(name) !== node) throw new DriveError('stale', 'It is another file now.')
      if (node.entry === entry) throw error
      return files.open(node, options)
    }
  }

  /**
   * What is appended belongs behind what another machine appended: the listing is asked where that costs
   * no promise (mode through). Throws `stale` when the name leads to another node by now.
   */
  async #refuseOldVersion(node: FileNode): Promise<void> {
    const { name } = node
    if (this.#settings.writeBack || name === undefined || node.hasUnpromised) return
    await this.#deps.entries.youngerThan(APPEND_LISTING_MS)
    if (this.#deps.entries.resolve(name) !== node) {
      throw new DriveError('stale', 'Another machine has changed this file.')
    }
  }

  /**
   * Removes a file: resolves when the service has deleted it (mode through) or the outbox has the
   * intent (mode back). With `mayBeReplaced` (the file is open) it resolves at once, see Removals.
   */
  async unlink(
    parent: NodeId,
    name: string,
    options: { readonly mayBeReplaced: boolean } = { mayBeReplaced: false },
  ): Promise<NodeId> {
    this.#refuseNotRoot(parent)
    const node = await this.#deps.rootNodes.find(name)
    // What cannot be read can be removed all the same.
    await this.#deps.rootNodes.learnForChange(name).catch(() => undefined)
    this.#deps.rootNodes.refuseKnownFolder(node)
    await this.#deps.rootNodes.untilSeen(node)
    const intent = await this.#deps.names.run('names', () =>
      this.#deps.removals.unlinkFile(node, name, options),
    )
    if (intent === undefined) return node.id
    if (options.mayBeReplaced) this.#deps.uploader.kick()
    else await secureChange(this.#deps, intent.id, { hasNewContent: false })
    return node.id
  }

  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    this.#refuseNotRoot(newParent)
    refuseTrash(newName)
    this.#refuseNotRoot(parent)
    await this.#deps.renames.rename(name, newName)
  }

  async exchange(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    this.#refuseNotRoot(newParent)
    this.#refuseNotRoot(parent)
    for (const each of [name, newName]) refuseTrash(each)
    await this.#deps.renames.exchange(name, newName)
  }

  /** A folder that is empty and stays on this machine until something is put into it. */
  async makeDirectory(parent: NodeId, name: string, made: MadeAttributes): Promise<void> {
    await this.#make(parent, name, () => this.#deps.folders.make(name, made))
  }

  async #make(parent: NodeId, name: string, make: () => Promise<unknown>): Promise<void> {
    const { entries, names } = this.#deps
    this.#refuseNotRoot(parent)
    refuseTrash(name)
    await entries.fresh()
    await names.run('names', async () => {
      if (entries.resolve(name) !== undefined) {
        throw new DriveError('exists', 'There is something of this name.')
      }
      checkTypedName(name)
      await make()
    })
  }

  async removeDirectory(parent: NodeId, name: string): Promise<void> {
    this.#refuseNotRoot(parent)
    const node = await this.#deps.rootNodes.find(name)
    if (!node.isFolder) {
      throw new DriveError('not-a-directory', 'This is a file.')
    }
    const { removals, folders, names } = this.#deps
    await folders.refuseFull(node)
    const intent = await names.run('names', () => removals.unlinkFolder(node, name))
    folders.detach(node)
    if (intent !== undefined) await secureChange(this.#deps, intent.id, { hasNewContent: false })
  }

  makeSymlink(): Promise<void> {
    return Promise.reject(new DriveError('not-permitted', 'Links are kept inside folders only.'))
  }

  /** It stays on this machine. */
  async makeNode(
    parent: NodeId,
    name: string,
    made: MadeAttributes,
    special: SpecialNode,
  ): Promise<void> {
    await this.#make(parent, name, () => this.#deps.changes.putNode(name, made, special))
  }

  readSymlink(): Promise<string> {
    return Promise.reject(new DriveError('invalid', 'This is not a link.'))
  }

  listExtended(id: NodeId): readonly string[] {
    return id === ROOT ? [] : this.#deps.extended.list(this.#deps.rootNodes.current(id))
  }

  getExtended(id: NodeId, name: string): string {
    if (id === ROOT) throw new DriveError('no-attribute', `There is no attribute ${name}.`)
    return this.#deps.extended.get(this.#deps.rootNodes.current(id), name)
  }

  /** `user.bagfs.description` and `user.bagfs.kind`; others are refused as `unsupported`. */
  async setExtended(id: NodeId, name: string, value: string): Promise<void> {
    const which = this.#deps.extended.settable(name)
    if (which === undefined || id === ROOT) {
      throw new DriveError('unsupported', 'Only user.bagfs.description and .kind can be set.')
    }
    const node = this.#deps.rootNodes.current(id)
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
    await this.#deps.rootNodes.untilSeen(node)
    await this.#deps.rootRoom.check(node, this.#deps.changes.bytesSentAgain(node))
    const isBag = node.entry?.kind === 'bag'
    const intent = await this.#deps.names.run('names', () =>
      this.#deps.changes.describe(node, value),
    )
    if (intent !== undefined) await secureChange(this.#deps, intent.id, { hasNewContent: !isBag })
  }

  #refuseNotRoot(parent: NodeId): void {
    if (parent !== ROOT) throw new DriveError('not-a-directory', 'This is a file.')
  }
}
