import type { FileNode } from '../tree/nodes.ts'
import { SIZE_TRUSTED_MS } from '../tree/size-trust.ts'
import type { MadeAttributes, OpenOptions } from '../tree/home.ts'
import { RootOpenFile, type RootOpenFileDeps } from './root-open-file.ts'

/** Opens files of the root. */
export class Files {
  readonly #deps: RootOpenFileDeps

  constructor(deps: RootOpenFileDeps) {
    this.#deps = deps
  }

  /** Opens what a node is now; waits until its true length is known, so that no reader is cut short. */
  async open(node: FileNode, options: OpenOptions): Promise<RootOpenFile> {
    const file = new RootOpenFile(this.#deps, node, options)
    try {
      if (options.truncate) await file.truncate(0)
      else await file.learnLength()
      const sinceChange = this.#deps.clock.now() - node.sizeChangedAtMs
      file.endIsUnsure = options.append === true && sinceChange < SIZE_TRUSTED_MS
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /** Makes an empty file under a new name. */
  async create(node: FileNode, made: MadeAttributes): Promise<RootOpenFile> {
    const file = new RootOpenFile(this.#deps, node, { writable: true })
    try {
      await file.stageNew(made)
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /** Cuts or lengthens a file without a handle. What close would do follows at once, unless it is being written. */
  async truncate(node: FileNode, length: number): Promise<void> {
    const isBeingWritten = node.hasUnpromised
    const file = await this.open(node, { writable: true, truncate: length === 0 })
    try {
      if (length !== 0) await file.truncate(length)
      if (!isBeingWritten) await file.flush()
    } finally {
      await file.close()
    }
  }
}
