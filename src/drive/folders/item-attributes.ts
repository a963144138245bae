import { withAllTimes } from '../../domain/attributes.ts'
import type { DirectoryNode } from '../../zip/tree.ts'
import type { Attributes } from '../tree/attributes.ts'
import { isSpecial, withReadTime, type DirectoryItem, type FileItem, type Item } from './items.ts'
import type { OpenFolder } from './open-folder.ts'

/** What stat tells of something inside a folder. */
export function attributesOf(open: OpenFolder, item: Item): Attributes {
  const kept = withReadTime(item.type === 'file' ? open.files.attributesOf(item) : item, item)
  const size = sizeOf(open, item)
  const allocated = item.type === 'file' ? allocatedOf(item) : undefined
  const device = isSpecial(item) ? item.device : undefined
  const links = item.type === 'directory' ? linksOf(item) : undefined
  return { node: item.id, links, kind: item.type, device, size, allocated, ...withAllTimes(kept) }
}

/** As file systems count them. */
export function linksOf(directory: DirectoryItem): number {
  return 2 + (directory.children?.directories ?? directoriesIn(directory.archived))
}

function directoriesIn(archived: DirectoryNode | undefined): number {
  let directories = 0
  for (const { type } of archived?.children.values() ?? []) {
    if (type === 'directory') directories += 1
  }
  return directories
}

function sizeOf(open: OpenFolder, item: Item): number {
  if (item.type === 'file') return open.files.sizeOf(item)
  return item.type === 'symlink' ? Buffer.byteLength(item.target) : 0
}

/** In a zip there are no holes. */
function allocatedOf({ content }: FileItem): number | undefined {
  return content.from === 'local' ? content.allocated : undefined
}
