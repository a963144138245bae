import { join } from 'node:path'
import { keptOf } from '../../domain/attributes.ts'
import { DriveError } from '../../domain/errors.ts'
import type { ArchivedContent, LocalContent } from './item-content.ts'
import { isSpecial, withReadTime, type FileItem, type Item } from './items.ts'
import type { JournalItem } from './journal.ts'
import type { OpenFolder } from './open-folder.ts'

/**
 * Copies of the files of a subtree, made in a directory of their own while the subtree may still
 * change. Content that is copied is frozen, so that what changes is told from what does not.
 */
export class TreeCopy {
  readonly #open: OpenFolder
  readonly #dir: string
  readonly #copies = new Map<LocalContent | ArchivedContent, { file: string; length: number }>()
  readonly #frozen: LocalContent[] = []

  /** `dir` is there and empty. */
  constructor(open: OpenFolder, dir: string) {
    this.#open = open
    this.#dir = dir
    // The zip that is read stays open, also when a new one takes its place.
    open.folder.openFiles += 1
  }

  /** Copies what is not copied as it is now; answers what is there, and whether nothing was to be copied. */
  async complete(top: Item): Promise<{ items: readonly JournalItem[]; isSame: boolean }> {
    const items: JournalItem[] = []
    const before = this.#copies.size
    for await (const { item, path } of walk(this.#open, top)) {
      items.push(await this.#describe(item, path))
    }
    return { items, isSame: this.#copies.size === before }
  }

  async #describe(item: Item, path: string): Promise<JournalItem> {
    const kept = keptOf(withReadTime(item, item))
    if (item.type === 'directory') return { type: 'directory', path, ...kept }
    if (item.type === 'symlink') return { type: 'symlink', path, ...kept, target: item.target }
    // Programs make it anew at another place.
    if (isSpecial(item)) throw new DriveError('cross-device', 'A node stays in its folder.')
    const copy = await this.#copyOf(item)
    const attributes = withReadTime(this.#open.files.attributesOf(item), item)
    return { type: 'file', path, ...keptOf(attributes), ...copy }
  }

  async #copyOf(item: FileItem): Promise<{ file: string; length: number }> {
    const { content } = item
    const known = this.#copies.get(content)
    if (known !== undefined) return known
    if (content.from === 'local') {
      content.freeze()
      this.#frozen.push(content)
    }
    const file = String(this.#copies.size + 1)
    const length = await this.#open.files.copyTo(item, join(this.#dir, file))
    const copy = { file, length }
    this.#copies.set(content, copy)
    return copy
  }

  /** Lets go of what was copied; the copies stay. */
  release(): void {
    for (const content of this.#frozen.splice(0)) content.thaw()
    this.#open.folder.openFiles -= 1
    this.#open.folder.closeOldZips()
  }
}

/** Everything in an item, itself first, with paths relative to it; directories that were not read yet are read. */
async function* walk(
  open: OpenFolder,
  item: Item,
  path = '',
): AsyncGenerator<{ item: Item; path: string }> {
  yield { item, path }
  if (item.type !== 'directory') return
  for (const child of [...(await open.folder.children(item)).values()]) {
    yield* walk(open, child, path === '' ? child.name : `${path}/${child.name}`)
  }
}

/** Bytes of all files in an item, as they are now. */
export async function sizeOfTree(open: OpenFolder, top: Item): Promise<number> {
  let bytes = 0
  for await (const { item } of walk(open, top)) {
    if (item.type === 'file') bytes += open.files.sizeOf(item)
  }
  return bytes
}
