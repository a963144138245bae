import { DriveError, isAbsent } from '../../domain/errors.ts'
import type { BagId } from '../../domain/ids.ts'
import type { TrashItem } from '../../trash/item.ts'
import { nameItems } from '../../trash/item-names.ts'
import type { Trash } from '../../trash/trash.ts'
import type { RootTrash } from '../root/root-trash.ts'
import { LocalFile } from '../tree/local-file.ts'
import type { VirtualContent, VirtualDirectory, VirtualFile } from './virtual-entry.ts'

export interface TrashDirectoryDeps {
  readonly trash: Trash
  readonly rootTrash: Pick<RootTrash, 'items' | 'isDeleted'>
}

interface ShownItem {
  readonly item: TrashItem
  readonly file: VirtualFile
}

/** `.bagfs/trash`: what was deleted or replaced, the newest first; a folder as its zip. */
export class TrashDirectory implements VirtualDirectory {
  readonly kind = 'directory'
  readonly #deps: TrashDirectoryDeps
  /** Made anew after a change of the trash. */
  #byName: ReadonlyMap<string, ShownItem> | undefined
  /** So that a name leads to the same node each time. */
  #known = new Map<BagId, ShownItem>()

  constructor(deps: TrashDirectoryDeps) {
    this.#deps = deps
    deps.trash.onChange(() => {
      this.#byName = undefined
    })
  }

  names(): readonly string[] {
    const { rootTrash } = this.#deps
    const deleted = new Set(rootTrash.items().map(({ bagId }) => bagId))
    return [...this.#all()].flatMap(([name, { item }]) => (deleted.has(item.bagId) ? [name] : []))
  }

  find(name: string): VirtualFile | undefined {
    const shown = this.#all().get(name)
    return shown !== undefined && this.#deps.rootTrash.isDeleted(shown.item)
      ? shown.file
      : undefined
  }

  #all(): ReadonlyMap<string, ShownItem> {
    if (this.#byName !== undefined) return this.#byName
    const known = new Map<BagId, ShownItem>()
    const byName = new Map<string, ShownItem>()
    for (const [name, item] of nameItems(this.#deps.trash.items())) {
      const before = this.#known.get(item.bagId)
      const shown =
        before?.item === item
          ? before
          : { item, file: { kind: 'file' as const, open: () => this.#open(item) } }
      known.set(item.bagId, shown)
      byName.set(name, shown)
    }
    this.#known = known
    this.#byName = byName
    return byName
  }

  async #open({ bagId, deletedAtMs }: TrashItem): Promise<VirtualContent> {
    try {
      const source = new LocalFile(this.#deps.trash.files.contentPath(bagId))
      return { source, size: await source.length(), mtimeMs: deletedAtMs }
    } catch (error) {
      if (!isAbsent(error)) throw error
      throw new DriveError('gone', 'It is no longer in the trash.', { cause: error })
    }
  }
}
