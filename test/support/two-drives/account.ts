import type { Life } from './history.ts'
import { shortened } from './tokens.ts'

/** Bags of one name, each as its files, in an order that only their content decides. */
type Versions = ReadonlyMap<string, readonly string[]>

/** A name that the drive gave to an older bag of that name. What is written there is stored under it. */
const MARK = / \([0-9a-zA-Z]{8,}\)$/

/** What the account has, as a drive should show it. */
export interface Account {
  readonly versions: Versions
  /** Of each name that no folder has, the content of the newest bag. */
  readonly newest: ReadonlyMap<string, string>
}

/** Of the bags of an account, oldest first. A folder without files counts as none. */
export function accountOf(lives: readonly Life[]): Account {
  const all = lives.filter(({ files }) => files.size > 0)
  const last = new Map(all.map((life) => [life.name, life]))
  return {
    versions: groupBy(all.map(({ name, files }) => [name.replace(MARK, ''), files])),
    newest: new Map(
      [...last].flatMap(([name, { files }]) => {
        const content = files.get('')
        return content === undefined ? [] : [[name, content]]
      }),
    ),
  }
}

/** What is other in a drive, by the content of its files, for people; undefined when nothing is. */
export function compare(
  account: Account,
  shown: ReadonlyMap<string, string | null>,
): string | undefined {
  const found = versionsIn(shown)
  const names = new Set([...account.versions.keys(), ...found.keys()])
  const differences = [...names].flatMap((name) => {
    const [stored, seen] = [account.versions.get(name) ?? [], found.get(name) ?? []]
    if (stored.join('\n') !== seen.join('\n')) {
      return [`${name}: the account has [${tell(stored)}], the drive shows [${tell(seen)}]`]
    }
    const newest = account.newest.get(name)
    return newest === undefined || newest === shown.get(name)
      ? []
      : [
          `${name}: the newest is ${shortened(newest)}, shown is ${shortened(shown.get(name) ?? '')}`,
        ]
  })
  return differences.length === 0 ? undefined : differences.join('\n')
}

function versionsIn(shown: ReadonlyMap<string, string | null>): Versions {
  const tops = new Map<string, Map<string, string>>()
  for (const [path, content] of shown) {
    const slash = path.indexOf('/')
    const top = slash < 0 ? path : path.slice(0, slash)
    const files = tops.get(top) ?? new Map<string, string>()
    tops.set(top, files.set(slash < 0 ? '' : path.slice(slash + 1), content ?? 'cannot be read'))
  }
  return groupBy([...tops].map(([top, files]) => [top.replace(MARK, ''), files]))
}

function groupBy(
  all: readonly (readonly [name: string, files: ReadonlyMap<string, string>])[],
): Versions {
  const groups = new Map<string, string[]>()
  for (const [name, files] of all) {
    const sorted = [...files].sort(([one], [other]) => (one < other ? -1 : 1))
    const text = sorted.map(([path, content]) => `${path}=${content}`).join(' ')
    groups.set(name, [...(groups.get(name) ?? []), text].sort())
  }
  return groups
}

function tell(contents: readonly string[]): string {
  return contents.map(shortened).join(', ')
}
