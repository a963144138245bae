import type { Who } from './history.ts'

/** A listing that a drive asked for. Times as in `History`. */
export interface Listed {
  readonly who: Who
  readonly begunAt: number
  /** Ids of the bags in it; undefined until it is answered. */
  bags?: readonly string[]
  /** It may not have reached the drive: the connection was broken, or the drive killed. */
  isLost: boolean
}

/** The listings that both drives asked for, oldest first. */
export class Listings {
  readonly #all: Record<Who, Listed[]> = { A: [], B: [] }

  begin(who: Who, begunAt: number): Listed {
    const listed = { who, begunAt, isLost: false }
    this.#all[who].push(listed)
    return listed
  }

  count(who: Who): number {
    return this.#all[who].length
  }

  /** To be called when connections of a drive break, or it dies: what no later one followed may be lost. */
  break(who: Who): void {
    const last = this.#all[who].at(-1)
    if (last !== undefined) last.isLost = true
  }

  /**
   * Listings that a drive has taken in before a time. It asks for one at a time, so it has taken in each that is
   * followed by another one.
   */
  takenIn(who: Who, before: number): readonly Listed[] {
    const begun = this.#all[who].filter(({ begunAt }) => begunAt <= before)
    return begun.slice(0, -1).filter(({ bags, isLost }) => bags !== undefined && !isLost)
  }

  /** Listings that a drive may have taken in during a time: the last that it asked for before it counts. */
  during(who: Who, from: number, to: number): readonly Listed[] {
    const all = this.#all[who]
    const last = all.findLastIndex(({ begunAt }) => begunAt < from)
    return all.slice(Math.max(0, last)).filter(({ begunAt }) => begunAt <= to)
  }
}
