import type { AttributeChanges, Owner, SpecialNode } from '../domain/attributes.ts'
import { deferred } from '../domain/deferred.ts'
import { DriveError } from '../domain/errors.ts'
import type { HandleId, NodeId } from '../domain/ids.ts'
import type { WholeFile } from '../domain/whole-file.ts'
import type { Attributes, DirectoryEntry } from './tree/attributes.ts'
import { Beginnings } from './beginnings.ts'
import { DriveCommands } from './drive-commands.ts'
import { DriveNow } from './drive-now.ts'
import { assemble, type DriveDeps, type DriveParts } from './assemble.ts'
import { ExtendedAttributes } from './extended-attributes.ts'
import { Homes, type MadeUp } from './homes.ts'
import { isHere } from './is-here.ts'
import { NodeChanges, OF_CONTENT } from './node-changes.ts'
import type { Nodes } from './tree/nodes.ts'
import type { DriveSettings } from './settings.ts'
import { copyRange, lengthen, writeZeros, type ByteSpan } from './tree/ranges.ts'
import type { CreateOptions, MadeAttributes, OpenOptions } from './tree/home.ts'
import type { OnDisk, WriteOptions } from './tree/open-file.ts'
import type { ShareRange } from './tree/share-range.ts'

export type { DriveDeps } from './assemble.ts'

/** A change that is under way when the drive is closed takes less, unless it waits for the service. */
const LONGEST_CHANGE_MS = 2_000

/**
 * The file system: nodes, handles, operations. Knows no FUSE and no HTTP; every rejection is a
 * DriveError. Paths are the bridge's business: nodes are found by parent and name. Here each
 * operation is led to the part of the drive that owns its node.
 */
export class Drive {
  readonly #deps: DriveDeps
  readonly #parts: DriveParts
  readonly #homes: Homes
  readonly #beginnings: Beginnings
  readonly #changes: NodeChanges
  /** The extended attributes of its nodes. */
  readonly extended: ExtendedAttributes
  /** What is so now, and when that may be other: for a kernel that goes by what it was told. */
  readonly now: DriveNow
  readonly commands: DriveCommands

  constructor(deps: DriveDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#parts = assemble(deps, settings)
    this.#homes = new Homes(this.#parts, settings)
    this.#beginnings = new Beginnings(this.#homes, settings)
    this.#changes = new NodeChanges(this.#parts)
    this.now = new DriveNow(this.#parts)
    this.commands = new DriveCommands(deps, this.#parts, this)
    this.extended = new ExtendedAttributes({
      ...{ ...deps, homes: this.#homes },
      change: (node, task) => this.#changes.of(node, task),
    })
  }

  /** Shows a made-up directory under a hidden name of the root. */
  attach(name: string, make: (nodes: Nodes) => MadeUp): void {
    this.#homes.attach(name, make)
  }

  /** Shows a made-up file under a name of the root that no listing has, until something has that name. */
  standIn(name: string, make: (nodes: Nodes) => MadeUp): void {
    this.#homes.standIn(name, make)
  }

  /**
   * For a kernel that has one inode for all versions of a name: `ask` is told of an open file whose name is to mean
   * another version. `parted` answers, when the kernel knows the open file by another name or cannot.
   */
  onParting(ask: (node: NodeId, name: string) => void): void {
    this.#parts.entries.onParting(({ id, name }) => {
      if (name !== undefined) ask(id, name)
    })
  }

  /** See `onParting`. */
  parted(id: NodeId): void {
    const node = this.#parts.nodes.inRoot(id)
    if (node !== undefined) this.#parts.entries.part(node)
  }

  /** False when a node is gone, whatever had its name. */
  knows(id: NodeId): boolean {
    return this.#parts.nodes.get(id) !== undefined
  }

  /** Path from the root, without a slash before it; undefined for a node that has none, or that the drive makes up. */
  pathOf(id: NodeId): string | undefined {
    return this.#parts.nodes.get(id)?.path
  }

  /** True while a program has this file of the root open. */
  isOpen(id: NodeId): boolean {
    return (this.#parts.nodes.inRoot(id)?.handles.size ?? 0) > 0
  }

  /** What carries the changes to the service. */
  get uploader(): DriveParts['uploader'] {
    return this.#parts.uploader
  }

  /** Rejects `not-found` when nothing in the directory has this name. */
  lookup(parent: NodeId, name: string): Promise<Attributes> {
    return this.#homes.lookup(parent, name)
  }

  /** As `lookup`, when the answer is at hand; undefined when it is not, or is an error. */
  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    return this.#homes.lookupNow(parent, name)
  }

  async getAttributes(node: NodeId): Promise<Attributes> {
    return this.#homes.at(node).getAttributes(node)
  }

  /** When the size of a node last changed other than by writing here, in ms; 0 for never. */
  sizeChangedAtMs(node: NodeId): number {
    return this.#parts.nodes.get(node)?.sizeChangedAtMs ?? 0
  }

  /**
   * chmod, chown and utimens: `KeptAttributes` tells where that is kept. As in `create` and `makeDirectory`, the drive's umask is taken away from a mode.
   */
  async setAttributes(node: NodeId, changes: AttributeChanges): Promise<void> {
    const { mode } = changes
    const masked =
      mode === undefined ? changes : { ...changes, mode: this.#beginnings.masked(mode) }
    const ctimeMs = this.#deps.clock.now()
    await this.#changes.of(node, () =>
      this.#homes.changing(node).setAttributes(node, { ...masked, ctimeMs }),
    )
  }

  /** Cuts or lengthens a file; what close would do follows at once. */
  async truncate(node: NodeId, length: number): Promise<void> {
    await this.#changes.of(
      node,
      () => this.#homes.changing(node).truncate(node, length),
      OF_CONTENT,
    )
  }

  /** Cuts or lengthens an open file: the version that was opened, whatever its name leads to by now. */
  async truncateOpen(handle: HandleId, length: number): Promise<void> {
    await this.#parts.handles.change(handle, (file) => file.truncate(length))
  }

  /** What is in a directory, without `.` and `..`. */
  async readDirectory(node: NodeId): Promise<readonly DirectoryEntry[]> {
    return (await this.#homes.directory(node)).readDirectory(node)
  }

  /** Makes a file and opens it for reading and writing; an existing one is opened as it is. */
  async create(
    parent: NodeId,
    name: string,
    mode: number,
    options: CreateOptions & { readonly owner?: Owner } = {},
  ): Promise<{ readonly attributes: Attributes; readonly handle: HandleId }> {
    const home = this.#homes.making(parent, name)
    const begun = await this.#beginnings.of(parent, { mode, ...options.owner })
    const create = async () => {
      const made = await home.create(parent, name, begun, options)
      return { attributes: made.attributes, handle: this.#parts.handles.add(made.file) }
    }
    // One that is there is opened.
    return this.#changes.ofName(parent, name, create, OF_CONTENT)
  }

  /** As `create`, of a file without a name (O_TMPFILE), which goes with its last handle, unless `link` gives it one. */
  async createNameless(
    parent: NodeId,
    mode: number,
    owner: Owner = {},
  ): Promise<{ readonly attributes: Attributes; readonly handle: HandleId }> {
    const home = this.#homes.changing(parent)
    if (home.createNameless === undefined) throw new DriveError('unsupported', 'It keeps no files.')
    const begun = await this.#beginnings.of(parent, { mode, ...owner })
    const made = await home.createNameless(parent, begun)
    return { attributes: made.attributes, handle: this.#parts.handles.add(made.file) }
  }

  /** Gives an open file without a name one. On its way as after `flush`, which close waits for. */
  async link(handle: HandleId, parent: NodeId, name: string): Promise<Attributes> {
    const home = this.#homes.making(parent, name)
    return this.#parts.handles.change(handle, async (file) => {
      if (home.link === undefined) throw new DriveError('not-permitted', 'It keeps no files.')
      const link = home.link.bind(home)
      return this.#changes.ofName(parent, name, () => link(file, parent, name))
    })
  }

  async makeDirectory(
    parent: NodeId,
    name: string,
    mode: number,
    owner: Owner = {},
  ): Promise<void> {
    const home = this.#homes.making(parent, name)
    const made = await this.#beginnings.ofDirectory(parent, { mode, ...owner })
    await this.#changes.ofName(parent, name, () => home.makeDirectory(parent, name, made))
  }

  /** A relative link that stays inside its folder; others are refused. */
  async makeSymlink(
    parent: NodeId,
    name: string,
    target: string,
    owner: Owner = {},
  ): Promise<void> {
    const home = this.#homes.making(parent, name)
    const { uid, gid } = await this.#beginnings.of(parent, { mode: 0o777, ...owner })
    await this.#changes.ofName(parent, name, () =>
      home.makeSymlink(parent, name, target, { uid, gid }),
    )
  }

  /** A fifo, a socket or a device: of this machine, and never sent. */
  async makeNode(
    parent: NodeId,
    name: string,
    made: MadeAttributes,
    special: SpecialNode,
  ): Promise<void> {
    const home = this.#homes.making(parent, name)
    const begun = await this.#beginnings.of(parent, made)
    await this.#changes.ofName(parent, name, () => home.makeNode(parent, name, begun, special))
  }

  async readSymlink(node: NodeId): Promise<string> {
    return this.#homes.at(node).readSymlink(node)
  }

  async open(node: NodeId, options: OpenOptions): Promise<HandleId> {
    const { handles } = this.#parts
    if (!options.writable && !options.truncate) {
      await this.#changes.settled(node)
      return handles.add(await this.#homes.at(node).open(node, options))
    }
    return this.#changes.of(
      node,
      async () => handles.add(await this.#homes.changing(node).open(node, options)),
      OF_CONTENT,
    )
  }

  /** Whether a node's bytes can be read without asking the service. */
  isHere(node: NodeId): Promise<boolean> {
    return isHere({ ...this.#deps, ...this.#parts }, node)
  }

  /** Bytes read; a number at once when the bytes are here, else a promise. 0 at the end. */
  read(handle: HandleId, buffer: Uint8Array, position: number): number | Promise<number> {
    return this.#parts.handles.file(handle).read(buffer, position)
  }

  /** The kernel may read by itself from now on. Answers the atime that the file gets; undefined where that stays. */
  noteRead(handle: HandleId): number | undefined {
    return this.#parts.handles.file(handle).noteRead()
  }

  /** The kernel goes on with what it has of the file: what is read beside that must be of the same content. */
  noteKept(handle: HandleId): void {
    this.#parts.handles.file(handle).noteKept?.()
  }

  /** What a handle reads, when it is whole, checked, and in a file of the local disk that nothing changes. */
  wholeFileOf(handle: HandleId): WholeFile | undefined {
    return this.#parts.handles.file(handle).wholeFile()
  }

  /** Of what a handle reads, to look for its holes. */
  onDisk(handle: HandleId): Promise<OnDisk> {
    return this.#parts.handles.file(handle).onDisk()
  }

  /** Writes all of `bytes`; a number at once in the common case. */
  write(
    handle: HandleId,
    bytes: Uint8Array,
    position: number,
    how: WriteOptions = {},
  ): number | Promise<number> {
    const { handles } = this.#parts
    // The caller's bytes are its own again once this returns a promise.
    const kept = handles.isMoving(handle) ? Buffer.from(bytes) : bytes
    return handles.change(handle, (file) => file.write(kept, position, how))
  }

  /** fallocate: a file that is at least so long, or zeros in the place of what is there. */
  async allocate(
    handle: HandleId,
    span: ByteSpan,
    { isZeroed, isLengthened }: { readonly isZeroed: boolean; readonly isLengthened: boolean },
  ): Promise<void> {
    await this.#parts.handles.change(handle, async (file) => {
      if (isZeroed) await writeZeros(file, span)
      if (isLengthened) await lengthen(file, span)
    })
  }

  /**
   * Copies bytes from one open file to another, without the kernel in between; answers how many. With `share` what is whole
   * on the local disk is not copied where that disk can share blocks.
   */
  async copyRange(
    from: { readonly handle: HandleId; readonly offset: number },
    to: { readonly handle: HandleId; readonly offset: number },
    length: number,
    share?: ShareRange,
  ): Promise<number> {
    const { handles } = this.#parts
    const source = { file: handles.file(from.handle), offset: from.offset }
    return handles.change(to.handle, (file) =>
      copyRange(source, { file, offset: to.offset }, length, share),
    )
  }

  /** What close does: resolves when what was written is as safe as the mode promises. */
  async flush(handle: HandleId): Promise<void> {
    await this.#parts.handles.change(handle, (file) => file.flush())
  }

  /**
   * The file that closing this handle would upload, when no other open file writes the same content. A shell hands
   * its output to one program after the other, by descriptors of one open file. The bridge leaves the flush to the
   * last of them.
   */
  uploadedOnClose(handle: HandleId): NodeId | undefined {
    return this.#parts.handles.file(handle).uploadedOnClose()
  }

  /**
   * The node that an open file is now: one that was moved into or out of a folder is another one there. Undefined
   * for a file that the drive makes up.
   */
  nodeOf(handle: HandleId): NodeId | undefined {
    return this.#parts.handles.file(handle).nodeId
  }

  async fsync(handle: HandleId): Promise<void> {
    await this.#parts.handles.change(handle, (file) => file.fsync())
    await this.fsyncDirectory()
  }

  /** All that was closed, made, renamed or removed so far survives a power cut when this resolves. */
  async fsyncDirectory(): Promise<void> {
    await this.#deps.outbox.sync.complete()
  }

  async release(handle: HandleId): Promise<void> {
    await this.#parts.handles.release(handle)
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
    const owner = this.#homes.changing(parent)
    const { root } = this.#parts
    return this.#changes.ofName(parent, name, () =>
      owner === root ? root.unlink(parent, name, options) : owner.unlink(parent, name),
    )
  }

  async removeDirectory(parent: NodeId, name: string): Promise<void> {
    const home = this.#homes.changing(parent)
    await this.#changes.ofName(parent, name, () => home.removeDirectory(parent, name))
  }

  /** Rejects `cross-device` for what is in a directory that the drive makes up: programs copy then. */
  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    const newOwner = this.#homes.making(newParent, newName)
    const owner = this.#homes.changing(parent)
    const { moves } = this.#parts
    await this.#changes.ofBoth(parent, newParent, async () => {
      if (moves.isBetween(parent, newParent)) await moves.rename(parent, name, newParent, newName)
      else if (owner === newOwner) await owner.rename(parent, name, newParent, newName)
      else throw new DriveError('cross-device', 'This directory is not stored.')
    })
  }

  /** Gives each of two names what the other has. Rejects `invalid` where they are not in one folder, or both in the root. */
  async exchange(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    const newOwner = this.#homes.making(newParent, newName)
    const owner = this.#homes.changing(parent)
    if (owner !== newOwner || owner.exchange === undefined) {
      throw new DriveError('invalid', 'Names are exchanged within the root, or within one folder.')
    }
    const exchange = owner.exchange.bind(owner)
    await this.#changes.ofBoth(parent, newParent, () => exchange(parent, name, newParent, newName))
  }

  /** The room of the account: what is left of it, and what takes it. */
  get space(): DriveParts['space'] {
    return this.#parts.space
  }

  /** Gets the first listing, so that a drive that cannot answer fails at mount. */
  async start(): Promise<void> {
    await this.#parts.entries.fresh()
    await this.#parts.folderUploads.recover()
    this.#parts.pins.start()
  }

  /** What programs write goes to the outbox as it is now, for leaving: they cannot close it any more. */
  async commitAll(): Promise<void> {
    await this.#parts.unclosed.promiseAll()
  }

  /**
   * Ends what runs in the background. A detached mount still asks: no change begins any more, and one that is under way is
   * made, or refused, before what it is made of is closed.
   */
  async close(): Promise<void> {
    const { gate, handles } = this.#parts
    gate.shut()
    handles.shut()
    await this.uploader.close()
    await this.#untilUnchanged()
    this.#parts.keptFresh.close()
    this.#parts.kinds.close()
    this.#parts.missing.close()
    this.#parts.conflicts.close()
    await this.#parts.accesses.keepAll()
    this.#parts.openFolders.close()
    await this.#parts.pins.close()
  }

  /** Resolves when no change is under way. One that waits for what may never come is not waited for. */
  async #untilUnchanged(): Promise<void> {
    const { promise: enough, resolve } = deferred()
    const cancel = this.#deps.clock.after(LONGEST_CHANGE_MS, resolve)
    await Promise.race([this.#parts.gate.untilIdle(), enough])
    cancel()
  }
}
