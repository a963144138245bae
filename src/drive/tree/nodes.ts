import type { BagId, NodeId } from '../../domain/ids.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { Home } from './home.ts'
import type { OpenFile } from './open-file.ts'
import { SIZE_TRUSTED_MS } from './size-trust.ts'
import type { StagedFile } from './staged-file.ts'

export const ROOT = 1 as NodeId

/** Whatever has an id in the drive: the root, a bag in it, what is inside of a folder, or what the drive makes up. */
export interface DriveNode {
  /** Where its name is kept. What the drive makes up has its home at hand. */
  readonly home: 'root' | 'folders' | Home
  /** What lies in the root on the way to it, or is it; undefined for the root itself and for what the drive makes up. */
  readonly top: FileNode | undefined
  /** From the root, without a slash before it; undefined for what has no name, and for what the drive makes up. */
  readonly path: string | undefined
  /** When its size last changed other than by writing here, in milliseconds since the epoch; 0 for never. */
  readonly sizeChangedAtMs: number
}

/** All nodes of the drive by id. An id is given once: a node that is gone is never taken for another. */
export class Nodes {
  /** A home takes its nodes out once nothing leads to them. */
  readonly #byId = new Map<NodeId, DriveNode>([
    [ROOT, { home: 'root', top: undefined, path: '', sizeChangedAtMs: 0 }],
  ])
  #nextId: number = ROOT + 1

  nextId(): NodeId {
    this.#nextId += 1
    return (this.#nextId - 1) as NodeId
  }

  get(id: NodeId): DriveNode | undefined {
    return this.#byId.get(id)
  }

  /** A file or folder of the root; undefined for all others. */
  inRoot(id: NodeId): FileNode | undefined {
    const node = this.#byId.get(id)
    return node instanceof FileNode ? node : undefined
  }

  add(id: NodeId, node: DriveNode): void {
    this.#byId.set(id, node)
  }

  delete(id: NodeId): void {
    this.#byId.delete(id)
  }
}

/**
 * A file of the drive's root. It keeps its id across renames, and lives on unlinked while open. An open
 * file stays the version that was opened: when another machine stores another one under its name, that is
 * another node, and this one stands aside.
 */
export class FileNode implements DriveNode {
  readonly id: NodeId
  readonly #isFolder: (entry: Entry | undefined) => boolean
  /** Name in the drive; undefined once unlinked or replaced, and before one is given. */
  name: string | undefined
  /** Name as the service gets it. */
  serviceName: string
  /** True while its name shows what another machine did; what is written to it takes the name back. */
  isAside = false
  /** Whether the kernel knows its open files apart from its name: see `Entries.onParting`. */
  parting: 'no' | 'asked' | 'done' = 'no'
  /** What the namespace last said of it. */
  entry: Entry | undefined
  /** Content written here and not yet let go of. */
  staged: StagedFile | undefined
  /** Grows when another machine's version takes its name, and so its id. */
  version = 0
  /** When its size last changed other than by writing here, in milliseconds since the epoch. */
  sizeChangedAtMs = 0
  /** The size that its bag was last said to have, and when: the kernel goes by that for a while. */
  shownSize: { readonly bagId: BagId; readonly size: number; readonly atMs: number } | undefined
  /** When it was read last, while that is not kept with its bag or put yet. */
  readAtMs: number | undefined
  readonly handles = new Set<OpenFile>()

  constructor(
    named: { readonly id: NodeId; readonly name: string | undefined; readonly serviceName: string },
    isFolder: (entry: Entry | undefined) => boolean,
  ) {
    this.id = named.id
    this.name = named.name
    this.serviceName = named.serviceName
    this.#isFolder = isFolder
  }

  /** True once it is known to be a folder: a bag counts as a file until then. */
  get isFolder(): boolean {
    return this.#isFolder(this.entry)
  }

  get home(): 'root' | 'folders' {
    return this.isFolder ? 'folders' : 'root'
  }

  get top(): this {
    return this
  }

  get path(): string | undefined {
    return this.name
  }

  /** Notes the size that is told of its bag now. */
  noteShownSize(bagId: BagId, size: number, nowMs: number): void {
    if (this.isShownOtherwise(bagId, size, nowMs)) this.sizeChangedAtMs = nowMs
    this.shownSize = { bagId, size, atMs: nowMs }
  }

  /** True when another size of this bag was told so lately that the kernel may go by it. */
  isShownOtherwise(bagId: BagId, size: number, nowMs: number): boolean {
    const { shownSize } = this
    if (shownSize?.bagId !== bagId || shownSize.size === size) return false
    return nowMs - shownSize.atMs < SIZE_TRUSTED_MS
  }

  /** True while it holds what no intent promises yet. */
  get hasUnpromised(): boolean {
    return this.staged?.hasUnpromised === true
  }
}
