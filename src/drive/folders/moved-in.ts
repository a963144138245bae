import type { Operation } from './journal.ts'

/**
 * What moved into a folder and is in no zip of it yet. Where it came from is deleted once the folder is stored: should it be
 * gone, changed or somewhere else by then, that was the only copy.
 */
export class MovedIn {
  readonly #paths = new Set<string>()

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
        const isLost = this.#lose(this.#below(operation.path))
        for (const { type, path } of operation.entries) {
          if (type === 'file')
            this.#paths.add(path === '' ? operation.path : `${operation.path}/${path}`)
        }
        return isLost
      }
      case 'rename':
        return this.#rename(operation.path, operation.to)
      case 'file':
        return this.#lose(this.#paths.has(operation.path) ? [operation.path] : [])
      case 'remove':
        return this.#lose(this.#below(operation.path))
      default:
        return false
    }
  }

  #rename(from: string, to: string): boolean {
    if (this.#lose(this.#below(to))) return true
    for (const path of this.#below(from)) {
      this.#paths.delete(path)
      this.#paths.add(to + path.slice(from.length))
    }
    return false
  }

  /** What is at a path, and below it. */
  #below(top: string): readonly string[] {
    return [...this.#paths].filter((path) => path === top || path.startsWith(`${top}/`))
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
