import type { Attributes } from '../tree/attributes.ts'
import type { Item } from './items.ts'
import type { OpenFolder } from './open-folder.ts'

/** What stat tells of something inside a folder. */
export function attributesOf(open: OpenFolder, item: Item): Attributes {
  const mtimeMs = item.type === 'file' ? open.files.mtimeOf(item) : item.mtimeMs
  return {
    node: item.id,
    kind: item.type,
    size: sizeOf(open, item),
    mode: item.mode,
    mtimeMs,
    atimeMs: mtimeMs,
    ctimeMs: mtimeMs,
  }
}

function sizeOf(open: OpenFolder, item: Item): number {
  if (item.type === 'file') return open.files.sizeOf(item)
  return item.type === 'symlink' ? Buffer.byteLength(item.target) : 0
}
