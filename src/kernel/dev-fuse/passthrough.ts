import type { HandleId, NodeId } from '../../domain/ids.ts'
import { DriveError } from '../../domain/errors.ts'
import type { Logger } from '../../domain/logger.ts'
import type { WholeFile } from '../../domain/whole-file.ts'
import type { BridgeSettings, PassthroughState } from '../bridge.ts'
import type { BackingFiles } from './backing-files.ts'

/** How the open files of a node are read. */
interface NodeReads {
  /** Those that are open; the last one that leaves ends it. */
  readonly handles: Set<HandleId>
  /** What the kernel reads by itself; undefined while it asks the drive. */
  readonly backing: { readonly id: number; readonly content: WholeFile } | undefined
}

/** What a mount does without, by its own settings; undefined when it is left to the kernel. */
export function whyNoPassthrough({
  passthrough,
  readOnly,
}: Pick<BridgeSettings, 'passthrough' | 'readOnly'>): string | undefined {
  if (passthrough === 'off') return 'as asked for'
  // A writer beside such a reader would be opened with the cached file: what it maps would change that.
  return readOnly ? undefined : 'only a drive that is mounted with --read-only has it'
}

/**
 * Which open files the kernel reads by itself from the cache. It wants all open files of an inode read in one way, and
 * from one backing file: how the first one is opened holds until the last one is closed. A handle counts from before its
 * answer until its RELEASE: longer than for the kernel, which never sees two ways at a time so.
 */
export class Passthrough {
  readonly #files: BackingFiles | undefined
  readonly #log: Logger
  /** `leave` removes. */
  readonly #nodes = new Map<NodeId, NodeReads>()
  #state: PassthroughState

  /** Without `files` the kernel asks the drive for all, for this reason. */
  constructor(log: Logger, given: { readonly files: BackingFiles } | { readonly reason: string }) {
    this.#log = log
    this.#files = 'files' in given ? given.files : undefined
    const reason = 'reason' in given ? given.reason : 'the mount has not begun'
    this.#state = { isActive: false, reason }
  }

  get state(): PassthroughState {
    return this.#state
  }

  get isWanted(): boolean {
    return this.#files !== undefined
  }

  /** Nodes that are open, and of them those that the kernel reads by itself. */
  get load(): { readonly nodes: number; readonly backed: number } {
    const all = [...this.#nodes.values()]
    return { nodes: all.length, backed: all.filter(({ backing }) => backing !== undefined).length }
  }

  /** The kernel has told whether it can. */
  agreed(kernelHasIt: boolean): void {
    if (this.#files === undefined) return
    const refusal = kernelHasIt ? this.#files.refusal() : undefined
    if (!kernelHasIt) this.#end('this kernel has none; it comes with Linux 6.9')
    else if (refusal === 'EPERM') this.#end('only root may have it')
    else if (refusal !== undefined) this.#end(`the kernel refuses it (${refusal})`)
    else this.#state = { isActive: true }
  }

  /** The id of the backing file that a handle is opened with; undefined when the kernel is to ask the drive. */
  enter(node: NodeId, handle: HandleId, content: WholeFile | undefined): number | undefined {
    const reads = this.#nodes.get(node)
    if (reads === undefined) return this.#begin(node, handle, content)
    // The kernel can have one content of an inode: another one gets an inode of its own, or waits for the last close.
    if (reads.backing !== undefined && !isSame(reads.backing.content, content)) {
      throw new DriveError('stale', 'A program has other content of this file open.')
    }
    reads.handles.add(handle)
    return reads.backing?.id
  }

  #begin(node: NodeId, handle: HandleId, content: WholeFile | undefined): number | undefined {
    if (!this.#state.isActive) return undefined
    const id = content === undefined ? undefined : this.#add(content.fd)
    const backing = content === undefined || id === undefined ? undefined : { id, content }
    this.#nodes.set(node, { handles: new Set([handle]), backing })
    return id
  }

  #add(fd: number): number | undefined {
    const added = this.#files?.add(fd)
    if (added === undefined || 'id' in added) return added?.id
    this.#end(`the disk of the cache cannot have it (${added.refusal})`)
    return undefined
  }

  /** A handle is closed, or the kernel never got it. */
  leave(node: NodeId, handle: HandleId): void {
    const reads = this.#nodes.get(node)
    if (reads?.handles.delete(handle) !== true || reads.handles.size > 0) return
    this.#nodes.delete(node)
    if (reads.backing !== undefined) this.#files?.remove(reads.backing.id)
  }

  /** What is open goes on as it is. */
  #end(reason: string): void {
    this.#state = { isActive: false, reason }
    this.#log.info({ reason }, 'The kernel asks the drive for the content of all files.')
  }
}

function isSame(content: WholeFile, other: WholeFile | undefined): boolean {
  return content.bagId === other?.bagId && content.generation === other.generation
}
