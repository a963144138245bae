import { deferred } from '../../domain/deferred.ts'

interface ClosedPath {
  readonly path: string
  readonly end: Promise<void>
}

/** Keeps changes apart from moves: what is changed at a place that is being left would be lost. */
export class MoveGate {
  /** Paths from the root of what is being changed; each change removes its own. */
  readonly #underWay = new Set<{ readonly path: string }>()
  /** Each move removes its own. */
  readonly #closed = new Set<ClosedPath>()

  /**
   * Makes a change of what is at a path; waits while that, or a directory that it is in, leaves its place. It may be
   * at another one then, so the path is asked for anew.
   */
  async change<Result>(
    pathNow: () => string | undefined,
    task: () => Promise<Result>,
  ): Promise<Result> {
    // Looked at and noted in one turn: a move must not close the path in between.
    while (this.#over(pathNow()) !== undefined) await this.untilOpen(pathNow)
    const path = pathNow()
    if (path === undefined) return task()
    const change = { path }
    this.#underWay.add(change)
    try {
      return await task()
    } finally {
      this.#underWay.delete(change)
    }
  }

  /** Resolves when what a path leads to is not leaving its place. */
  async untilOpen(pathNow: () => string | undefined): Promise<void> {
    for (let closed = this.#over(pathNow()); closed !== undefined; closed = this.#over(pathNow())) {
      await closed.end
    }
  }

  /** No change at a path, or below it, begins until what this answers is called. */
  close(path: string): () => void {
    const { promise: end, resolve } = deferred()
    const closed = { path, end }
    this.#closed.add(closed)
    return () => {
      this.#closed.delete(closed)
      resolve()
    }
  }

  /** True while something at a path, or below it, is being changed. */
  isUnderWay(path: string): boolean {
    return [...this.#underWay].some((change) => isIn(path, change.path))
  }

  /** What has no path any more may be what just left its place: its open files are led to the new one in a moment. */
  #over(path: string | undefined): ClosedPath | undefined {
    return [...this.#closed].find((closed) => path === undefined || isIn(closed.path, path))
  }
}

/** True for the path of a directory, and for all that is below it. */
export function isIn(top: string, path: string): boolean {
  return path === top || path.startsWith(`${top}/`)
}
