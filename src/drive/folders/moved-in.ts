import { FollowedPaths } from './followed-paths.ts'
import { filePathsOf, type Operation } from './journal.ts'

/**
 * What moved into a folder and is in no zip of it yet. Where it came from is deleted once the folder is stored: should it be
 * gone, changed or somewhere else by then, that was the only copy.
 */
export class MovedIn {
  readonly #paths = new FollowedPaths<true>()

  /** False when nothing of it is there. */
  get isAny(): boolean {
    return this.#paths.size > 0
  }

  /**
   * Takes the next operation of the folder; true when something that moved in is not as it came any more. The caller keeps
   * all that moved in until then, so nothing of that is followed further.
   */
  follow(operation: Operation): boolean {
    switch (operation.op) {
      case 'tree': {
        const isLost = this.#lose(this.#paths.below(operation.path))
        for (const { path } of filePathsOf(operation)) this.#paths.set(path, true)
        return isLost
      }
      case 'rename':
        return this.#rename(operation.path, operation.to)
      case 'file':
        return this.#lose(this.#paths.has(operation.path) ? [operation.path] : [])
      case 'remove':
        return this.#lose(this.#paths.below(operation.path))
      default:
        return false
    }
  }

  #rename(from: string, to: string): boolean {
    if (this.#lose(this.#paths.below(to))) return true
    this.#paths.rename(from, to)
    return false
  }

  #lose(lost: readonly string[]): boolean {
    if (lost.length > 0) this.clear()
    return lost.length > 0
  }

  /** All is stored. */
  clear(): void {
    this.#paths.clear()
  }
}
