import { DriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import { checkEncoding } from '../domain/names.ts'
import type { Attributes } from '../drive/tree/attributes.ts'
import type { Drive } from '../drive/drive.ts'
import { ROOT } from '../drive/tree/nodes.ts'

/** Names that libfuse gives to open files that are unlinked or replaced. */
const HIDDEN = /^\.fuse_hidden[0-9a-f]+$/

/** Leads the paths of a path-based bridge to the nodes of the drive. */
export class Paths {
  readonly #drive: Drive
  /** Unlinked open files by the path libfuse gave them; it asks to unlink them when they are closed. */
  readonly #hidden = new Map<string, NodeId>()

  constructor(drive: Drive) {
    this.#drive = drive
  }

  /** The node of an absolute path; rejects `not-found`, and `bad-encoding` for what is not UTF-8. */
  async node(path: string): Promise<NodeId> {
    checkEncoding(path)
    const hidden = this.#hidden.get(path)
    if (hidden !== undefined) return hidden
    let node: NodeId = ROOT
    for (const name of path.split('/')) {
      if (name !== '') node = (await this.#drive.lookup(node, name)).node
    }
    return node
  }

  /** Attributes of a file by its path, when they are at hand; on an error too undefined: `node` tells it. */
  fileNow(path: string): Attributes | undefined {
    try {
      return this.#hidden.has(path) ? undefined : this.#walkNow(path)
    } catch {
      return undefined
    }
  }

  #walkNow(path: string): Attributes | undefined {
    checkEncoding(path)
    let found: Attributes | undefined
    for (const name of path.split('/')) {
      if (name === '') continue
      found = this.#drive.lookupNow(found?.node ?? ROOT, name)
      if (found === undefined) return undefined
    }
    // A directory may have changed since its parent was asked for it.
    return found?.kind === 'directory' ? undefined : found
  }

  /** The directory and the name that a path ends in; rejects as `node` does. */
  async parent(path: string): Promise<{ readonly parent: NodeId; readonly name: string }> {
    checkEncoding(path)
    const slash = path.lastIndexOf('/')
    const name = path.slice(slash + 1)
    if (name === '') throw new DriveError('busy', 'This is the drive itself.')
    return { parent: await this.node(path.slice(0, slash)), name }
  }

  isHiding(path: string): boolean {
    return HIDDEN.test(path.slice(path.lastIndexOf('/') + 1))
  }

  /** A path for an open file that loses its name, as libfuse makes them; `count` tells it from others. */
  hiddenPath(node: NodeId, count: number): string {
    const [of, number] = [node, count].map((each) => each.toString(16).padStart(10, '0'))
    return `/.fuse_hidden${of ?? ''}${number ?? ''}`
  }

  hide(path: string, node: NodeId): void {
    this.#hidden.set(path, node)
  }

  /**
   * Throws `not-empty` for a directory that a file was removed from which a program still has open. libfuse would lose
   * the path of that file, and hand fuse-native a null pointer for it when it is closed.
   */
  refuseHolding(path: string): void {
    for (const hidden of this.#hidden.keys()) {
      if (!hidden.startsWith(`${path}/`)) continue
      throw new DriveError(
        'not-empty',
        'A program has a file open that was removed from this folder.',
      )
    }
  }

  /** A directory has another name: what is hidden in it goes with it. */
  renamed(from: string, to: string): void {
    for (const [path, node] of [...this.#hidden]) {
      if (!path.startsWith(`${from}/`)) continue
      this.#hidden.delete(path)
      this.#hidden.set(`${to}${path.slice(from.length)}`, node)
    }
  }

  /** True when the path was a hidden file's, which is forgotten then. */
  forget(path: string): boolean {
    return this.#hidden.delete(path)
  }
}
