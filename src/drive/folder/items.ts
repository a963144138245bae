import type { NodeId } from '../../domain/ids.ts'
import type { Archive } from '../../folder/archive.ts'
import type { DirectoryNode, LeafNode } from '../../folder/tree.ts'
import type { StagedFile } from '../staged-file.ts'

/** Content that was written here: a file in the folder's staging directory. */
export interface LocalContent {
  readonly from: 'local'
  /** Name of the file: a number. */
  readonly file: string
  readonly path: string
  length: number
  /** Open while somebody reads or writes it. */
  staged: StagedFile | undefined
  /** While packing reads it, a write goes to a copy. */
  pins: number
  /** True once the journal names it. */
  journaled: boolean
  /** Until then: the content of before, which is still what is promised. */
  before: LocalContent | ArchivedContent | undefined
}

/** Content of an entry of the folder's zip. */
export interface ArchivedContent {
  readonly from: 'archive'
  readonly archive: Archive
  readonly node: LeafNode
}

interface ItemBase {
  readonly id: NodeId
  parent: DirectoryItem | undefined
  name: string
  mode: number
  mtimeMs: number
}

export interface FileItem extends ItemBase {
  readonly type: 'file'
  content: LocalContent | ArchivedContent
  /** Open handles; an unlinked file lives on until the last is closed. */
  handles: number
}

export interface LinkItem extends ItemBase {
  readonly type: 'symlink'
  readonly target: string
}

export interface DirectoryItem extends ItemBase {
  readonly type: 'directory'
  /** Undefined until somebody looks: then made from `archived`. */
  children: Map<string, Item> | undefined
  /** Where the children are in the zip; undefined for a directory that was made here. */
  archived: DirectoryNode | undefined
}

export type Item = FileItem | LinkItem | DirectoryItem

/** What a kill would leave of a file; undefined for one that was never closed: it was promised to nobody. */
export function promisedContent({ content }: FileItem): LocalContent | ArchivedContent | undefined {
  return content.from === 'archive' || content.journaled ? content : content.before
}

/** True for content that is as it was when the file was closed last. */
export function isClosedContent({ content }: FileItem): boolean {
  if (content.from === 'archive') return true
  return content.journaled && content.staged?.dirty !== true && content.length > 0
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

/** A directory and all below it that somebody has looked at. */
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
