import type { Operation } from './journal.ts'

type Renaming = Extract<Operation, { op: 'rename' }>

const BETWEEN = '.bagfs-exchange'

/** A name that nothing in a directory has, for one of two names on its way to the other. */
export function freeName(taken: ReadonlyMap<string, unknown>): string {
  for (let count = 0; ; count += 1) {
    const name = count === 0 ? BETWEEN : `${BETWEEN}-${count}`
    if (!taken.has(name)) return name
  }
}

/**
 * The lines of the journal that exchange two paths: renames, so that an older version understands them. The first one
 * names what is exchanged: after a kill in between, `leftToExchange` has the others.
 */
export function exchanging(
  one: string,
  other: string,
  between: string,
  atMs: number,
): readonly [Renaming, Renaming, Renaming] {
  return [
    { op: 'rename', path: one, to: between, atMs, exchanges: other },
    { op: 'rename', path: other, to: one, atMs },
    { op: 'rename', path: between, to: other, atMs },
  ]
}

/** The lines that a journal lacks of the exchange that it ends in. */
export function leftToExchange(operations: readonly Operation[]): readonly Operation[] {
  for (const done of [1, 2]) {
    const first = operations.at(-done)
    if (first?.op !== 'rename' || first.exchanges === undefined) continue
    const { path, to, atMs, exchanges } = first
    return exchanging(path, exchanges, to, atMs).slice(done)
  }
  return []
}
