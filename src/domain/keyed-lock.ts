/**
 * Runs tasks one at a time per key, in call order; tasks of different keys overlap. The orders in which
 * the program takes its locks are in docs/ARCHITECTURE.md.
 */
export class KeyedLock<Key> {
  /** The last task of each key; it removes itself. */
  readonly #tails = new Map<Key, Promise<void>>()

  /** Resolves or rejects as `task` does; the key is free again either way. */
  async run<Result>(key: Key, task: () => Promise<Result>): Promise<Result> {
    return this.runAll([key], task)
  }

  /** As `run`, with a place in the line of every key at once, so that two tasks never wait for each other. */
  async runAll<Result>(keys: readonly Key[], task: () => Promise<Result>): Promise<Result> {
    const before = keys.map((key) => this.#tails.get(key) ?? Promise.resolve())
    const turn = Promise.all(before).then(task)
    const tail = turn.then(ignore, ignore)
    for (const key of keys) this.#tails.set(key, tail)
    try {
      return await turn
    } finally {
      for (const key of keys) if (this.#tails.get(key) === tail) this.#tails.delete(key)
    }
  }

  /** Resolves when every task started so far has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#tails.values())
  }
}

const ignore = (): void => undefined
