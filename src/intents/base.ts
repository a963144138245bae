import type { BagId, IntentId } from '../domain/ids.ts'

/** What a change takes the place of. */
export interface Base {
  readonly replaces: readonly BagId[]
  readonly supersedes: readonly IntentId[]
}

export const NOTHING: Base = { replaces: [], supersedes: [] }

export function joined(a: Base, b: Base): Base {
  return {
    replaces: [...new Set([...a.replaces, ...b.replaces])],
    supersedes: [...new Set([...a.supersedes, ...b.supersedes])],
  }
}
