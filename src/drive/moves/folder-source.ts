import { DriveError, goneFile } from '../../domain/errors.ts'
import type { MovedTo } from '../../intents/intent.ts'
import type { Item } from '../folders/items.ts'
import type { JournalItem } from '../folders/journal.ts'
import type { OpenFolder } from '../folders/open-folder.ts'
import type { Place } from '../folders/open-folders.ts'
import { sizeOfTree, TreeCopy } from '../folders/tree-copy.ts'
import { refuseLeavingLinks, type NewPlace } from '../folders/leaving-links.ts'
import type { MoveSource, OpenPath } from './source.ts'

/** Copies that may have to be made again because something changed meanwhile. */
const ROUNDS = 5

/** Something in a folder. */
export class ItemSource implements MoveSource {
  readonly folder: OpenFolder
  readonly item: Item
  readonly path: string
  readonly handles: readonly OpenPath[]
  readonly openNow: () => readonly OpenPath[]
  readonly isInRoot: boolean = false
  readonly #name: string
  #copy: TreeCopy | undefined

  constructor(path: string, { open, item }: Place, openNow: () => readonly OpenPath[]) {
    this.path = path
    this.folder = open
    this.item = item
    this.openNow = openNow
    this.handles = openNow()
    this.#name = item.name
  }

  get type(): Item['type'] {
    return this.item.type
  }

  check(place: NewPlace | undefined): void {
    refuseLeavingLinks(this.item, place)
  }

  /** The next zip of a folder that has changes holds room for all that is in it. */
  async unheldBytes(): Promise<number> {
    return this.folder.room.isHeld ? 0 : sizeOfTree(this.folder, this.item)
  }

  async copyTo(dir: string): Promise<void> {
    await this.hold(dir).complete(this.item)
  }

  /** The folder shows no other version from now on, until `release`. */
  protected hold(dir: string): TreeCopy {
    this.folder.folder.refuseClosed()
    this.#copy ??= new TreeCopy(this.folder, dir)
    return this.#copy
  }

  async finish(): Promise<readonly JournalItem[]> {
    this.refuseGone()
    await this.begin()
    for (let round = 0; round < ROUNDS; round += 1) {
      const found = await this.#copy?.complete(this.item)
      if (found?.isSame === true) return found.items
    }
    throw new DriveError('busy', 'The file changes while it is moved.')
  }

  /** What is there now. What changed since `finish`, or is in another zip since, is copied once more. */
  async now(): Promise<readonly JournalItem[]> {
    const found = await this.#copy?.complete(this.item)
    return found?.items ?? []
  }

  get isGone(): boolean {
    const { parent } = this.item
    return this.item.name !== this.#name || parent?.children?.get(this.#name) !== this.item
  }

  protected refuseGone(): void {
    this.folder.folder.refuseClosed()
    if (this.isGone) throw goneFile()
  }

  /** The folder must take the removal before anything is at the new place. */
  protected async begin(): Promise<void> {
    await this.folder.changes.begin()
  }

  async remove(to: MovedTo): Promise<void> {
    // Content that is still frozen would stay behind.
    this.release()
    await this.folder.changes.noteMoved(to)
    // It is at its new place, and this place knows that, before it goes.
    await this.folder.changes.sync()
    this.folder.names.takeOut(this.item)
  }

  release(): void {
    this.#copy?.release()
    this.#copy = undefined
  }
}
