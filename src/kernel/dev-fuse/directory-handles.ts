import { DriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { DirectoryEntry } from '../../drive/tree/attributes.ts'

interface OpenDirectory {
  readonly node: NodeId
  /** As it was when it was read from its beginning; undefined before. */
  entries: readonly DirectoryEntry[] | undefined
  /** What these names are of, see `KernelTrust.directoryVersion`. */
  version: string | undefined
}

/** Open directories. One that is read in pieces shows what was in it at the first of them. */
export class DirectoryHandles {
  /** `close` removes. */
  readonly #open = new Map<number, OpenDirectory>()
  #last = 0

  open(node: NodeId): number {
    this.#last += 1
    this.#open.set(this.#last, { node, entries: undefined, version: undefined })
    return this.#last
  }

  /** What is in it, read anew at its beginning (rewinddir). Throws `bad-handle` for what is not open. */
  async entries(
    handle: number,
    options: {
      readonly isBeginning: boolean
      /** What is read is of, asked for once it has been read. */
      readonly version: () => string | undefined
      readonly read: ReadDirectory
    },
  ): Promise<readonly DirectoryEntry[]> {
    const directory = this.#open.get(handle)
    if (directory === undefined) throw new DriveError('bad-handle', 'This folder is not open.')
    if (options.isBeginning || directory.entries === undefined) {
      directory.entries = await options.read(directory.node)
      directory.version = options.version()
    }
    return directory.entries
  }

  /**
   * True while another handle has names of another version. The kernel takes names into its cache as it gets to it, and goes
   * by the version that it has when the last reader begins: these may come behind, and be taken for that one.
   */
  isReadOtherwise(node: NodeId, version: string, handle?: number): boolean {
    for (const [other, open] of this.#open) {
      if (open.node !== node || other === handle || open.version === undefined) continue
      if (open.version !== version) return true
    }
    return false
  }

  close(handle: number): void {
    this.#open.delete(handle)
  }
}

type ReadDirectory = (node: NodeId) => Promise<readonly DirectoryEntry[]>
