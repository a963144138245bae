import { DriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { DirectoryEntry } from '../../drive/tree/attributes.ts'

interface OpenDirectory {
  readonly node: NodeId
  /** As it was when it was read from its beginning; undefined before. */
  entries: readonly DirectoryEntry[] | undefined
}

/** Open directories. One that is read in pieces shows what was in it at the first of them. */
export class DirectoryHandles {
  /** `close` removes. */
  readonly #open = new Map<number, OpenDirectory>()
  #last = 0

  open(node: NodeId): number {
    this.#last += 1
    this.#open.set(this.#last, { node, entries: undefined })
    return this.#last
  }

  /** What is in it, read anew at its beginning (rewinddir). Throws `bad-handle` for what is not open. */
  async entries(
    handle: number,
    options: { readonly isBeginning: boolean; readonly read: ReadDirectory },
  ): Promise<readonly DirectoryEntry[]> {
    const directory = this.#open.get(handle)
    if (directory === undefined) throw new DriveError('bad-handle', 'This folder is not open.')
    if (options.isBeginning || directory.entries === undefined) {
      directory.entries = await options.read(directory.node)
    }
    return directory.entries
  }

  close(handle: number): void {
    this.#open.delete(handle)
  }
}

type ReadDirectory = (node: NodeId) => Promise<readonly DirectoryEntry[]>
