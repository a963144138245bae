import { deferred } from '../../domain/deferred.ts'
import { driveCloses } from '../../domain/errors.ts'

/** What a change is of; without anything, of all but the bytes of a file. */
export interface ChangeKind {
  readonly isOfContent?: boolean
}

interface ClosedPath {
  readonly path: string
  /** True where other changes go on. */
  readonly isOfContent: boolean
  readonly end: Promise<void>
}

/** Keeps changes apart from moves: what is changed at a place that is being left would be lost. */
export class MoveGate {
  /** Paths from the root of what is being changed; each change removes its own. */
  readonly #underWay = new Set<{ readonly path: string; readonly end: Promise<void> }>()
  /** Each move removes its own. */
  readonly #closed = new Set<ClosedPath>()
  #isShut = false

  /** As `changeAll`, of what is at one path. */
  change<Result>(
    pathNow: () => string | undefined,
    task: () => Promise<Result>,
    what: ChangeKind = {},
  ): Promise<Result> {
    return this.changeAll([pathNow], task, what)
  }

  /**
   * Makes a change of what is at these paths; waits while that, or a directory that it is in, leaves its place. It may be
   * at another one then, so the paths are asked for anew.
   */
  async changeAll<Result>(
    pathsNow: readonly (() => string | undefined)[],
    task: () => Promise<Result>,
    { isOfContent = false }: ChangeKind = {},
  ): Promise<Result> {
    const closedOne = () => pathsNow.find((pathNow) => this.#over(pathNow(), isOfContent))
    // Looked at and noted in one turn: a move must not close a path in between. None is noted while another is waited for.
    for (let pathNow = closedOne(); pathNow !== undefined; pathNow = closedOne()) {
      await this.#untilOpen(pathNow, isOfContent)
    }
    if (this.#isShut) throw driveCloses()
    const { promise: end, resolve } = deferred()
    const changes = pathsNow.flatMap((pathNow) => {
      const path = pathNow()
      return path === undefined ? [] : [{ path, end }]
    })
    for (const change of changes) this.#underWay.add(change)
    try {
      return await task()
    } finally {
      for (const change of changes) this.#underWay.delete(change)
      resolve()
    }
  }

  /** From now on each change is refused as `interrupted`: the drive is being closed. */
  shut(): void {
    this.#isShut = true
  }

  /** Resolves when what a path leads to is not leaving its place. */
  untilOpen(pathNow: () => string | undefined): Promise<void> {
    return this.#untilOpen(pathNow, false)
  }

  async #untilOpen(pathNow: () => string | undefined, isOfContent: boolean): Promise<void> {
    const over = (): ClosedPath | undefined => this.#over(pathNow(), isOfContent)
    for (let closed = over(); closed !== undefined; closed = over()) await closed.end
  }

  /** No change at a path, or below it, begins until what this answers is called; with `isOfContent`, none of content. */
  close(path: string, { isOfContent = false }: ChangeKind = {}): () => void {
    const { promise: end, resolve } = deferred()
    const closed = { path, end, isOfContent }
    this.#closed.add(closed)
    return () => {
      this.#closed.delete(closed)
      resolve()
    }
  }

  /** Resolves when nothing of what is being changed now at a path, or below it, is any more. */
  async untilChanged(path: string): Promise<void> {
    const changes = [...this.#underWay].filter((change) => isIn(path, change.path))
    await Promise.all(changes.map(({ end }) => end))
  }

  /** Resolves when nothing that is being changed now is any more. */
  async untilIdle(): Promise<void> {
    await Promise.all([...this.#underWay].map(({ end }) => end))
  }

  /** True while something at a path, or below it, is being changed. */
  isUnderWay(path: string): boolean {
    return [...this.#underWay].some((change) => isIn(path, change.path))
  }

  /** What has no path any more may be what just left its place: its open files are led to the new one in a moment. */
  #over(path: string | undefined, isOfContent: boolean): ClosedPath | undefined {
    return [...this.#closed].find(
      (closed) =>
        (isOfContent || !closed.isOfContent) && (path === undefined || isIn(closed.path, path)),
    )
  }
}

/** True for the path of a directory, and for all that is below it. */
export function isIn(top: string, path: string): boolean {
  return path === top || path.startsWith(`${top}/`)
}
