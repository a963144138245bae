import { DriveError } from '../../domain/errors.ts'
import { staysInside } from '../../zip/links.ts'
import { walkTree, type DirectoryNode } from '../../zip/tree.ts'
import type { Folder } from './folder.ts'
import { itemsOf, type DirectoryItem, type Item } from './items.ts'

/** Where something is going to be; undefined as the top of a folder of its own. */
export interface NewPlace {
  readonly parent: DirectoryItem
  readonly name: string
}

/** Throws `not-permitted` when a link of a subtree would lead out of its folder at the new place. */
export function refuseLeavingLinks(top: Item, place: NewPlace | undefined): void {
  const steps = {
    up: (directory: DirectoryItem) => (directory === top ? place?.parent : directory.parent),
    down: (directory: DirectoryItem, step: string) => {
      const isHere = directory === place?.parent && step === place.name
      const child = isHere ? top : directory.children?.get(step)
      return child?.type === 'directory' ? child : undefined
    },
  }
  for (const item of itemsOf(top)) {
    if (item.type !== 'symlink') continue
    const start = item === top ? place?.parent : item.parent
    if (start === undefined || !staysInside(item.target, start, steps)) {
      throw new DriveError('not-permitted', 'A link in it would lead out of its folder.')
    }
  }
}

/** Looks into those directories of a subtree that hold links: until then it is not known where these lead. */
export async function lookForLinks(folder: Pick<Folder, 'children'>, top: Item): Promise<void> {
  if (top.type !== 'directory') return
  if (top.children === undefined && !holdsLinks(top.archived)) return
  for (const child of (await folder.children(top)).values()) await lookForLinks(folder, child)
}

function holdsLinks(directory: DirectoryNode | undefined): boolean {
  if (directory === undefined) return false
  for (const node of walkTree(directory)) if (node.type === 'symlink') return true
  return false
}
