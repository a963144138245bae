/** What is at some paths of a folder, through renames of them and of what they are in. */
export class FollowedPaths<Value> {
  readonly #at = new Map<string, Value>()

  get size(): number {
    return this.#at.size
  }

  set(path: string, value: Value): void {
    this.#at.set(path, value)
  }

  has(path: string): boolean {
    return this.#at.has(path)
  }

  delete(path: string): void {
    this.#at.delete(path)
  }

  /** What is at a path, and below it. */
  below(top: string): readonly string[] {
    return [...this.#at.keys()].filter((path) => path === top || path.startsWith(`${top}/`))
  }

  rename(from: string, to: string): void {
    for (const path of this.below(from)) {
      const value = this.#at.get(path)
      this.#at.delete(path)
      if (value !== undefined) this.#at.set(to + path.slice(from.length), value)
    }
  }

  entries(): Iterable<readonly [string, Value]> {
    return this.#at.entries()
  }

  clear(): void {
    this.#at.clear()
  }
}
