import { DriveError } from '../domain/errors.ts'
import type { BagId, HandleId, NodeId } from '../domain/ids.ts'
import type { AttributeChanges, Attributes, DirectoryEntry, SpaceReport } from './attributes.ts'
import { assemble, type DriveDeps, type DriveParts } from './assemble.ts'
import { ROOT } from './nodes.ts'
import type { RefusedChanges, RoomHolder } from './room.ts'
import type { DriveSettings } from './settings.ts'
import { syncNow } from './sync.ts'
import type { Created, OpenOptions, Subtree } from './subtree.ts'

export type { DriveDeps } from './assemble.ts'

/**
 * The file system: nodes, handles, operations. Knows no FUSE and no HTTP; every rejection is a
 * DriveError. Paths are the bridge's business: nodes are found by parent and name. Here each
 * operation is led to the part of the drive that owns its node.
 */
export class Drive {
  readonly #deps: DriveDeps
  readonly #parts: DriveParts
  readonly #settings: DriveSettings
  /** Directories that the drive makes up in its root, hidden from its listing. */
  readonly #hidden = new Map<string, { readonly subtree: Subtree; readonly top: NodeId }>()
  readonly #subtrees: Subtree[]

  constructor(deps: DriveDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#parts = assemble(deps, settings)
    this.#subtrees = [this.#parts.folders, this.#parts.root]
  }

  /** Shows a made-up directory under a hidden name of the root. */
  attach(name: string, make: (ids: DriveIds) => { subtree: Subtree; top: NodeId }): void {
    const { nodes, handles } = this.#parts
    const made = make({ nextNode: () => nodes.allocate(), nextHandle: () => handles.allocate() })
    this.#hidden.set(name, made)
    this.#subtrees.unshift(made.subtree)
  }

  /** True when a visible entry is this bag; the uploader must not delete it then. */
  shows(bagId: BagId): boolean {
    return this.#parts.entries.shows(bagId)
  }

  /** What was changed here and on another machine. */
  get conflicts(): DriveParts['conflicts'] {
    return this.#parts.conflicts
  }

  /** What the uploader asks about folders. */
  get folders(): DriveParts['folderUploads'] {
    return this.#parts.folderUploads
  }

  /** Rejects `not-found` when nothing in the directory has this name. */
  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const hidden = parent === ROOT ? this.#hidden.get(name) : undefined
    if (hidden !== undefined) return hidden.subtree.getAttributes(hidden.top)
    return this.#at(parent).lookup(parent, name)
  }

  /** As `lookup`, when the answer is at hand; undefined when it is not, or is an error. */
  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    if (parent === ROOT && this.#hidden.has(name)) return undefined
    return this.#at(parent).lookupNow?.(parent, name)
  }

  async getAttributes(node: NodeId): Promise<Attributes> {
    return this.#at(node).getAttributes(node)
  }

  /** When the size of a node last changed other than by writing here, in ms; 0 for never. */
  sizeChangedAtMs(node: NodeId): number {
    return this.#parts.root.sizeChangedAtMs(node)
  }

  /**
   * chmod and utimens: kept on this machine, with the content when it waits, else with the facts of the
   * bag. As in `create` and `makeDirectory`, the drive's umask is taken away from a mode.
   */
  async setAttributes(node: NodeId, changes: AttributeChanges): Promise<void> {
    const { mode, ...others } = changes
    const masked = mode === undefined ? others : { ...others, mode: this.#masked(mode) }
    await this.#changing(node).setAttributes(node, masked)
  }

  /** Cuts or lengthens a file; without a handle, what close would do follows at once. */
  async truncate(node: NodeId, length: number, handle?: HandleId): Promise<void> {
    const cut = (now?: HandleId) => this.#changing(node).truncate(node, length, now)
    await (handle === undefined ? cut() : this.#parts.moved.change(handle, cut))
  }

  /** What is in a directory, without `.` and `..`. */
  async readDirectory(node: NodeId): Promise<readonly DirectoryEntry[]> {
    return this.#at(node).readDirectory(node)
  }

  /** Makes a file and opens it for reading and writing; an existing one is opened as it is. */
  async create(parent: NodeId, name: string, mode: number): Promise<Created> {
    this.#refuseHidden(parent, name)
    return this.#changing(parent).create(parent, name, this.#masked(mode))
  }

  async makeDirectory(parent: NodeId, name: string, mode: number): Promise<void> {
    this.#refuseHidden(parent, name)
    await this.#changing(parent).makeDirectory(parent, name, this.#masked(mode))
  }

  /** A relative link that stays inside its folder; others are refused. */
  async makeSymlink(parent: NodeId, name: string, target: string): Promise<void> {
    this.#refuseHidden(parent, name)
    await this.#changing(parent).makeSymlink(parent, name, target)
  }

  async readSymlink(node: NodeId): Promise<string> {
    return this.#at(node).readSymlink(node)
  }

  async open(node: NodeId, options: OpenOptions): Promise<HandleId> {
    const changes = options.writable || options.truncate
    return (changes ? this.#changing(node) : this.#at(node)).open(node, options)
  }

  /** Bytes read; a number at once when the bytes are here, else a promise. 0 at the end. */
  read(handle: HandleId, buffer: Uint8Array, position: number): number | Promise<number> {
    const now = this.#parts.moved.current(handle)
    return this.#of(now).read(now, buffer, position)
  }

  /** Writes all of `bytes`; a number at once in the common case. */
  write(handle: HandleId, bytes: Uint8Array, position: number): number | Promise<number> {
    const { moved } = this.#parts
    // The caller's bytes are its own again once this returns a promise.
    const kept = moved.isHeld(handle) ? Buffer.from(bytes) : bytes
    return moved.change(handle, (now) => this.#of(now).write(now, kept, position))
  }

  /** What close does: resolves when what was written is as safe as the mode promises. */
  async flush(handle: HandleId): Promise<void> {
    await this.#parts.moved.change(handle, (now) => this.#of(now).flush(now))
  }

  /**
   * The file that closing this handle would upload, when no other open file writes the same content. When another
   * descriptor of the same open file remains (a shell hands its output to one program after the
   * other), the bridge leaves the flush to the last of them.
   */
  uploadedOnClose(handle: HandleId): NodeId | undefined {
    const { root, moved } = this.#parts
    const now = moved.current(handle)
    return root.ownsHandle(now) ? root.uploadedOnClose(now) : undefined
  }

  async fsync(handle: HandleId): Promise<void> {
    await this.#parts.moved.change(handle, (now) => this.#of(now).fsync(now))
  }

  async release(handle: HandleId): Promise<void> {
    const { moved } = this.#parts
    await moved.change(handle, () => this.#releaseAll(moved.forget(handle)))
  }

  /**
   * Removes a file: resolves when the service has deleted it (mode through) or the outbox has the
   * intent (mode back, and inside folders). With `mayBeReplaced` (the file is open) it resolves at
   * once: the bridge cannot tell an unlink of an open file from the first half of a rename over it.
   */
  async unlink(
    parent: NodeId,
    name: string,
    options: { readonly mayBeReplaced: boolean } = { mayBeReplaced: false },
  ): Promise<NodeId> {
    const owner = this.#changing(parent)
    const { root } = this.#parts
    return owner === root ? root.unlink(parent, name, options) : owner.unlink(parent, name)
  }

  async removeDirectory(parent: NodeId, name: string): Promise<void> {
    await this.#changing(parent).removeDirectory(parent, name)
  }

  /** Rejects `cross-device` for what is in a directory that the drive makes up: programs copy then. */
  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    this.#refuseHidden(newParent, newName)
    const owner = this.#changing(parent)
    const newOwner = this.#changing(newParent)
    const { moves } = this.#parts
    if (moves.isBetween(parent, newParent)) await moves.rename(parent, name, newParent, newName)
    else if (owner === newOwner) await owner.rename(parent, name, newParent, newName)
    else throw new DriveError('cross-device', 'This directory is not stored.')
  }

  async #releaseAll(handles: readonly HandleId[]): Promise<void> {
    const released = await Promise.allSettled(handles.map((each) => this.#of(each).release(each)))
    for (const each of released) if (each.status === 'rejected') throw each.reason
  }

  /** Undefined before the service has ever told. */
  async space(): Promise<SpaceReport | undefined> {
    return this.#parts.space.report()
  }

  /** What takes room of the account and is no change that waits, the largest first. */
  roomHolders(): readonly RoomHolder[] {
    return this.#parts.space.holders()
  }

  /** Folders that refused changes, because what they would be stored as does not fit. */
  refusedChanges(): readonly RefusedChanges[] {
    return this.#parts.space.refused()
  }

  listExtended(node: NodeId): readonly string[] {
    return this.#at(node).listExtended(node)
  }

  getExtended(node: NodeId, name: string): string {
    return this.#at(node).getExtended(node, name)
  }

  /** `user.bagfs.description` and `user.bagfs.kind`; others are refused as `unsupported`. */
  async setExtended(node: NodeId, name: string, value: string): Promise<void> {
    await this.#changing(node).setExtended(node, name, value)
  }

  /** Gets the first listing, so that a drive that cannot answer fails at mount. */
  async start(): Promise<void> {
    await this.#parts.entries.fresh()
    await this.#parts.folderUploads.recover()
  }

  /** Resolves when the service has what was written under a name of the root, or under any. */
  async sync(name?: string): Promise<void> {
    const { files, folders, folderUploads } = this.#parts
    await syncNow({ ...this.#deps, files, folders, folderUploads }, name)
  }

  /** Before leaving: what is still open and written goes to the outbox. */
  async commitAll(): Promise<void> {
    await this.#parts.files.commitAll()
    await this.#parts.folders.commitAll()
  }

  close(): Promise<void> {
    this.#parts.kinds.close()
    this.#parts.missing.close()
    this.#parts.openFolders.close()
    return Promise.resolve()
  }

  #masked(mode: number): number {
    return mode & ~this.#settings.umask
  }

  #at(node: NodeId): Subtree {
    const owner = this.#subtrees.find((subtree) => subtree.owns(node))
    if (owner === undefined) throw new DriveError('not-found', 'This file is gone.')
    return owner
  }

  #changing(node: NodeId): Subtree {
    if (this.#settings.readOnly) throw new DriveError('read-only', 'The drive is read-only.')
    return this.#at(node)
  }

  #of(handle: HandleId): Subtree {
    const owner = this.#subtrees.find((subtree) => subtree.ownsHandle(handle))
    if (owner === undefined) throw new DriveError('bad-handle', 'This file is not open.')
    return owner
  }

  #refuseHidden(parent: NodeId, name: string): void {
    if (parent !== ROOT || !this.#hidden.has(name)) return
    throw new DriveError('exists', 'This name is the drive’s own.')
  }
}

/** Where a made-up directory gets its ids. */
export interface DriveIds {
  nextNode(): NodeId
  nextHandle(): HandleId
}
