import type { NodeId } from '../../domain/ids.ts'

/** Hears what may be other than a moment ago, and looks at it again. */
export interface NewsListener {
  /** Any name of the root. */
  root(): void
  /** These names of the root: what they mean, or the attributes of that. */
  names(names: Iterable<string>): void
  /** Size and content of a node are not what the kernel makes of what it wrote. */
  content(node: NodeId): void
  /** All that is in a folder of the root. */
  inside(top: NodeId): void
}

/**
 * The one place that tells what may have changed, for a kernel that goes by what it was told. What tells too much costs a
 * look. What does not tell leaves the kernel with something old until its trust ends.
 */
export class News implements NewsListener {
  #listener: NewsListener | undefined

  /** There is one listener at most. */
  listen(listener: NewsListener): void {
    this.#listener = listener
  }

  /** False where it is not worth finding out what changed. */
  get isHeard(): boolean {
    return this.#listener !== undefined
  }

  root(): void {
    this.#listener?.root()
  }

  names(names: Iterable<string>): void {
    this.#listener?.names(names)
  }

  content(node: NodeId): void {
    this.#listener?.content(node)
  }

  inside(top: NodeId): void {
    this.#listener?.inside(top)
  }
}
