import { DriveError } from '../../domain/errors.ts'
import { staysInside } from '../../folder/links.ts'
import { itemsOf, type DirectoryItem, type Item } from '../folder/items.ts'

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
