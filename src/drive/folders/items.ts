import type { KeptAttributes, SpecialKind } from '../../domain/attributes.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { DirectoryNode } from '../../zip/tree.ts'
import type { ArchivedContent, LocalContent } from './item-content.ts'

type Changeable<Fields> = { -readonly [Name in keyof Fields]: Fields[Name] }

/** The times of a file that is written are those of its content, see `FolderFiles.attributesOf`. */
interface ItemBase extends Changeable<KeptAttributes> {
  readonly id: NodeId
  parent: DirectoryItem | undefined
  name: string
  /** When it was read last, where that is another time than its atime, see `AccessTimes`. */
  readAtMs?: number | undefined
}

export interface FileItem extends ItemBase {
  readonly type: 'file'
  content: LocalContent | ArchivedContent
  /** Open handles; an unlinked file lives on until the last is closed. */
  handles: number
  /** When the kernel last had to learn another size of it, in ms since the epoch. */
  sizeChangedAtMs?: number
  /** True while it is open and its name leads to what another machine stored. */
  isAside?: boolean
}

export interface LinkItem extends ItemBase {
  readonly type: 'symlink'
  readonly target: string
}

export interface DirectoryItem extends ItemBase {
  readonly type: 'directory'
  /** Undefined until the first look: then made from `archived`. */
  children: Children | undefined
  /** Where the children are in the zip; undefined for a directory that was made here. */
  archived: DirectoryNode | undefined
}

/** A node of this machine: it is in no zip and no journal. */
export interface SpecialItem extends ItemBase {
  readonly type: SpecialKind
  readonly device: number
}

export type Item = FileItem | LinkItem | DirectoryItem | SpecialItem

/** What is in a directory, by name. It counts the directories in it, so that a stat need not. */
export class Children extends Map<string, Item> {
  #directories = 0

  get directories(): number {
    return this.#directories
  }

  override set(name: string, item: Item): this {
    this.#directories += directoriesIn(item) - directoriesIn(this.get(name))
    return super.set(name, item)
  }

  override delete(name: string): boolean {
    this.#directories -= directoriesIn(this.get(name))
    return super.delete(name)
  }

  override clear(): void {
    this.#directories = 0
    super.clear()
  }
}

function directoriesIn(item: Item | undefined): 0 | 1 {
  return item?.type === 'directory' ? 1 : 0
}

export function isSpecial(item: Item): item is SpecialItem {
  return item.type !== 'file' && item.type !== 'symlink' && item.type !== 'directory'
}

/** Content that was written here; undefined for all others. */
export function localContentOf(item: Item): LocalContent | undefined {
  return item.type === 'file' && item.content.from === 'local' ? item.content : undefined
}

/**
 * What the folder is stored with: content as it was closed or synced last. Undefined for a file that
 * never was.
 */
export function closedContent({ content }: FileItem): LocalContent | ArchivedContent | undefined {
  let at: LocalContent | ArchivedContent | undefined = content
  while (at?.from === 'local' && !at.isClosed) at = at.before
  return at
}

/** Path relative to `top`; empty for `top` itself. Undefined for what is not in there any more. */
export function pathOfItem(item: Item, top: Item): string | undefined {
  const names: string[] = []
  let at: Item = item
  while (at !== top) {
    const parent: DirectoryItem | undefined = at.parent
    if (parent === undefined) return undefined
    names.push(at.name)
    at = parent
  }
  return names.reverse().join('/')
}

/** Its attributes with the time at which it was read last. */
export function withReadTime(kept: KeptAttributes, { readAtMs }: Item): KeptAttributes {
  return readAtMs === undefined ? kept : { ...kept, atimeMs: readAtMs }
}

/** Something came to a directory, or left it. */
export function touch(directory: DirectoryItem, nowMs: number): void {
  directory.mtimeMs = nowMs
  directory.ctimeMs = nowMs
}

/** Of what was set of the top of a folder and what its changes made of it: whichever came later. */
export function laterTimes(
  set: KeptAttributes,
  top: KeptAttributes,
): { readonly mtimeMs: number; readonly ctimeMs: number } {
  const { mtimeMs: changedAtMs, ctimeMs: topMs = changedAtMs } = top
  const { mtimeMs, ctimeMs = mtimeMs } = set
  return ctimeMs < topMs ? { mtimeMs: changedAtMs, ctimeMs: topMs } : { mtimeMs, ctimeMs }
}

/** A directory and all below it that was looked at. */
export function* itemsOf(top: Item): Generator<Item> {
  const rest: Item[] = [top]
  for (let item = rest.pop(); item !== undefined; item = rest.pop()) {
    yield item
    if (item.type !== 'directory') continue
    // Not as the arguments of one call: there may be more than fit.
    for (const child of item.children?.values() ?? []) rest.push(child)
  }
}

/** True when `item` is `directory` or below it. */
export function isWithin(item: Item, directory: Item): boolean {
  for (let at: Item | undefined = item; at !== undefined; at = at.parent) {
    if (at === directory) return true
  }
  return false
}
