import type { HandleId } from '../domain/ids.ts'

/**
 * Open files whose file went to another place: what is done with the handle of before is led to one of
 * there. Reads go on while a file is being moved; changes wait, so that none gets lost between the two.
 */
export class MovedHandles {
  /** By the handle that a program has; `forget` removes. */
  readonly #led = new Map<HandleId, HandleId>()
  /** While a move is under way. */
  readonly #held = new Map<HandleId, Promise<void>>()
  /** Changes under way; each removes itself. */
  readonly #running = new Map<HandleId, Set<Promise<unknown>>>()

  /** The handle that a program's handle stands for now. */
  current(handle: HandleId): HandleId {
    let now = handle
    if (this.#led.size === 0) return now
    for (let next = this.#led.get(now); next !== undefined; next = this.#led.get(now)) now = next
    return now
  }

  /** True while changes have to wait. */
  isHeld(handle: HandleId): boolean {
    return this.#held.size > 0 && this.#held.has(this.current(handle))
  }

  /** Makes a change of an open file: at once, or after the move that is under way. */
  change<Result>(
    handle: HandleId,
    task: (now: HandleId) => Result | Promise<Result>,
  ): Result | Promise<Result> {
    if (this.isHeld(handle)) return this.#later(handle, task)
    const now = this.current(handle)
    const result = task(now)
    return result instanceof Promise ? this.#watch(now, result) : result
  }

  async #later<Result>(
    handle: HandleId,
    task: (now: HandleId) => Result | Promise<Result>,
  ): Promise<Result> {
    for (;;) {
      const move = this.#held.get(this.current(handle))
      if (move === undefined) return this.change(handle, task)
      await move
    }
  }

  async #watch<Result>(handle: HandleId, change: Promise<Result>): Promise<Result> {
    const running = this.#running.get(handle) ?? new Set()
    this.#running.set(handle, running.add(change))
    try {
      return await change
    } finally {
      running.delete(change)
      if (running.size === 0) this.#running.delete(handle)
    }
  }

  /** Runs a move while nobody changes these files. */
  async during<Result>(handles: readonly HandleId[], move: () => Promise<Result>): Promise<Result> {
    const { promise, resolve } = withResolvers()
    for (const handle of handles) this.#held.set(handle, promise)
    try {
      for (const handle of handles) {
        await Promise.allSettled([...(this.#running.get(handle) ?? [])])
      }
      return await move()
    } finally {
      for (const handle of handles) this.#held.delete(handle)
      resolve()
    }
  }

  /** What is done with `from` is done with `to` from now on. */
  lead(from: HandleId, to: HandleId): void {
    this.#led.set(from, to)
  }

  /** A program's handle is closed: all that it stood for, the latest first. */
  forget(handle: HandleId): readonly HandleId[] {
    const all = [handle]
    let now: HandleId | undefined = handle
    while (now !== undefined) {
      const next = this.#led.get(now)
      this.#led.delete(now)
      if (next !== undefined) all.unshift(next)
      now = next
    }
    return all
  }
}

function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
