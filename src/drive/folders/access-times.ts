import type { KeptAttributes } from '../../domain/attributes.ts'
import type { AccessTimesStore } from '../../state/access-times-store.ts'
import type { Accesses } from '../tree/accesses.ts'
import { pathOfItem, type DirectoryItem, type Item } from './items.ts'

/** Of a folder with more files than this, the times of those that were read last are kept. */
const MAX_KEPT = 4096

interface AccessTimesDeps {
  readonly accessTimes: Pick<AccessTimesStore, 'of' | 'set'>
  readonly accesses: Accesses
  readonly top: DirectoryItem
  /** The name of the folder now. */
  readonly name: () => string
}

/** When what is in a folder was read last: of this machine, and no change of the folder. */
export class AccessTimes {
  readonly #deps: AccessTimesDeps
  /** By path in a directory that has not been looked into yet; `place` removes. */
  readonly #unplaced = new Map<DirectoryItem, ReadonlyMap<string, number>>()
  /** What was read last comes last; `forget` and `#all` remove. */
  readonly #items = new Set<Item>()
  /** Whether the tree is the one that is shown: of others nothing is written down. */
  #isBegun = false
  #isChanged = false

  constructor(deps: AccessTimesDeps) {
    this.#deps = deps
  }

  /** The tree is loaded, with what was changed in it: its files get their times. */
  begin(): void {
    this.#isBegun = true
    const { accessTimes, name, top } = this.#deps
    const times = accessTimes.of(name()).map(({ path, atimeMs }) => [path, atimeMs] as const)
    if (times.length === 0) return
    this.#unplaced.set(top, new Map(times))
    this.place(top)
  }

  /** A directory is looked into. */
  place(directory: DirectoryItem): void {
    const times = this.#unplaced.get(directory)
    if (times === undefined || directory.children === undefined) return
    this.#unplaced.delete(directory)
    const below = new Map<DirectoryItem, Map<string, number>>()
    for (const [path, atimeMs] of times) {
      const [name = '', ...rest] = path.split('/')
      const item = directory.children.get(name)
      if (rest.length === 0) {
        if (item !== undefined) this.#take(item, atimeMs)
      } else if (item?.type === 'directory') {
        const inside = below.get(item) ?? new Map<string, number>()
        below.set(item, inside.set(rest.join('/'), atimeMs))
      }
    }
    for (const [item, inside] of below) {
      this.#unplaced.set(item, inside)
      this.place(item)
    }
  }

  #take(item: Item, atimeMs: number): void {
    item.readAtMs = atimeMs
    this.#items.delete(item)
    this.#items.add(item)
  }

  /** It is read: false when its atime stays. */
  noteRead(item: Item, kept: KeptAttributes, nowMs: number): boolean {
    if (!this.#deps.accesses.isMoving(kept, nowMs)) return false
    this.note(item, nowMs)
    return true
  }

  /** It was read, or that was set. Written down within a minute. */
  note(item: Item, atimeMs: number): void {
    this.#take(item, atimeMs)
    const [oldest] = this.#items.size > MAX_KEPT ? this.#items : []
    if (oldest !== undefined) this.#items.delete(oldest)
    this.#keepSoon()
  }

  /** Its time is among its attributes now. */
  forget(item: Item): void {
    item.readAtMs = undefined
    if (this.#items.delete(item)) this.#keepSoon()
  }

  /** Something has another path. */
  noteMoved(): void {
    if (this.#items.size > 0 || this.#unplaced.size > 0) this.#keepSoon()
  }

  #keepSoon(): void {
    this.#isChanged = true
    this.#deps.accesses.note(this, () => {
      this.#keep()
    })
  }

  #keep(): void {
    if (!this.#isBegun || !this.#isChanged) return
    this.#isChanged = false
    const { accessTimes, name } = this.#deps
    const times = this.#all().slice(-MAX_KEPT)
    accessTimes.set(
      name(),
      times.map(([path, atimeMs]) => ({ path, atimeMs })),
    )
  }

  /** By the paths of now; what was read last comes last. */
  #all(): readonly (readonly [path: string, atimeMs: number])[] {
    const { top } = this.#deps
    const all: (readonly [string, number])[] = []
    for (const [directory, times] of this.#unplaced) {
      const path = pathOfItem(directory, top)
      if (path === undefined) this.#unplaced.delete(directory)
      const prefix = path === '' ? '' : `${path ?? ''}/`
      if (path !== undefined) for (const [rest, at] of times) all.push([`${prefix}${rest}`, at])
    }
    for (const item of this.#items) {
      const path = pathOfItem(item, top)
      if (path === undefined || item.readAtMs === undefined) this.#items.delete(item)
      else all.push([path, item.readAtMs])
    }
    return all
  }

  /** The tree goes: what was noted is written down by its paths. */
  end(): void {
    this.#keep()
    this.#isBegun = false
    this.#items.clear()
    this.#unplaced.clear()
  }
}
