import type { Operation } from './journal.ts'

/**
 * What moved into a folder and is in no zip of it yet. Where it came from is deleted once the folder is stored: should it be
 * gone or changed by then, that was the only copy.
 */
export class MovedIn {
  readonly #paths = new Set<string>()

  /** Takes the next operation of the folder; true when something that moved in is not as it came any more. */
  follow(operation: Operation): boolean {
    switch (operation.op) {
      case 'tree':
        for (const { type, path } of operation.entries) {
          if (type === 'file')
            this.#paths.add(path === '' ? operation.path : `${operation.path}/${path}`)
        }
        return false
      case 'rename':
        return this.#rename(operation.path, operation.to)
      case 'file':
      case 'remove':
        return this.#paths.delete(operation.path)
      default:
        return false
    }
  }

  #rename(from: string, to: string): boolean {
    const isReplaced = this.#paths.delete(to)
    for (const path of [...this.#paths]) {
      if (path !== from && !path.startsWith(`${from}/`)) continue
      this.#paths.delete(path)
      this.#paths.add(to + path.slice(from.length))
    }
    return isReplaced
  }

  /** All is stored. */
  clear(): void {
    this.#paths.clear()
  }
}
