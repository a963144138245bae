import type { Clock } from '../domain/clock.ts'
import type { Logger } from '../domain/logger.ts'
import { FolderOpenFile } from './folders/folder-open-file.ts'
import type { OpenFolders } from './folders/open-folders.ts'
import { pathOfItem, type FileItem } from './folders/items.ts'
import { unclosedOf } from './folders/packing.ts'
import type { Committer } from './root/commit.ts'
import type { Handles } from './tree/handles.ts'
import type { RootNames } from './root/root-names.ts'

interface UnclosedDeps {
  readonly rootNames: RootNames
  readonly handles: Handles
  readonly committer: Committer
  readonly openFolders: OpenFolders
  readonly clock: Clock
  readonly log: Logger
}

/** A file with content that no close has promised yet. */
interface UnpromisedFile {
  /** From the root of the drive. */
  readonly path: string
  /** Name of the root that it is, or is under. */
  readonly top: string
  readonly isBeingWritten: boolean
  /** True when all of it was flushed: the kernel tells a moment after the last close that it was the last. */
  readonly mayBeClosed: boolean
  /** Promises the content as it is. */
  readonly promise: () => Promise<unknown>
}

/** How long the kernel may take to tell of the last close of a file, in ms. */
const RELEASE_MS = 1_000
const LOOK_AGAIN_MS = 20

/** Content that programs wrote and have not closed. */
export class Unclosed {
  readonly #deps: UnclosedDeps

  constructor(deps: UnclosedDeps) {
    this.#deps = deps
  }

  /** Promises what no program writes any more, because its close failed; waits for closes that are on their way. */
  async promiseClosed(): Promise<void> {
    const { clock } = this.#deps
    const end = clock.now() + RELEASE_MS
    while (this.#files().some(({ mayBeClosed }) => mayBeClosed) && clock.now() < end) {
      await clock.sleep(LOOK_AGAIN_MS)
    }
    await this.#promise(this.#files().filter(({ isBeingWritten }) => !isBeingWritten))
  }

  /** Promises everything as it is now, for leaving: programs cannot close it any more. */
  async promiseAll(): Promise<void> {
    await this.#promise(this.#files())
  }

  /** Paths of files that programs write, under a name of the root or under any. */
  pathsBeingWritten(name?: string): readonly string[] {
    return this.#files()
      .filter(({ isBeingWritten, top }) => isBeingWritten && (name ?? top) === top)
      .map(({ path }) => path)
  }

  async #promise(files: readonly UnpromisedFile[]): Promise<void> {
    for (const { path, promise } of files) {
      try {
        await promise()
      } catch (error) {
        this.#deps.log.error({ path, error: String(error) }, 'What was written is not stored.')
      }
    }
  }

  #files(): readonly UnpromisedFile[] {
    return [...this.#inRoot(), ...this.#inFolders()]
  }

  *#inRoot(): Iterable<UnpromisedFile> {
    const { rootNames, committer } = this.#deps
    for (const node of rootNames.all()) {
      const { name, hasUnpromised, handles } = node
      if (!hasUnpromised || name === undefined) continue
      const isBeingWritten = [...handles].some(({ writable }) => writable)
      const promise = () => committer.commit(node)
      yield { path: name, top: name, isBeingWritten, mayBeClosed: false, promise }
    }
  }

  *#inFolders(): Iterable<UnpromisedFile> {
    const written = this.#itemsBeingWritten()
    for (const { folder, files } of this.#deps.openFolders.all()) {
      const { name } = folder.node
      if (name === undefined) continue
      for (const { item, content } of unclosedOf(folder)) {
        const inside = pathOfItem(item, folder.top)
        if (inside === undefined) continue
        const isBeingWritten = written.has(item)
        const mayBeClosed =
          isBeingWritten && content.journaled && content.staged?.hasUnpromised !== true
        const promise = () => files.persist(item, { closes: true })
        yield { path: `${name}/${inside}`, top: name, isBeingWritten, mayBeClosed, promise }
      }
    }
  }

  #itemsBeingWritten(): ReadonlySet<FileItem> {
    const items = new Set<FileItem>()
    for (const [, file] of this.#deps.handles.all()) {
      if (file instanceof FolderOpenFile && file.writable) items.add(file.item)
    }
    return items
  }
}
