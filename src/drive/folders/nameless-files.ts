import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import { checkTypedName } from '../../domain/names.ts'
import type { MadeAttributes } from '../tree/home.ts'
import type { ChangeLog } from './change-log.ts'
import type { FolderFiles } from './folder-files.ts'
import type { FolderRoom } from './folder-room.ts'
import type { Folder } from './folder.ts'
import { pathOfItem, touch, type DirectoryItem, type FileItem } from './items.ts'
import type { LocalContents } from './local-contents.ts'

interface NamelessDeps {
  readonly folder: Folder
  readonly changes: ChangeLog
  readonly room: FolderRoom
  readonly files: FolderFiles
  readonly contents: LocalContents
  readonly clock: Clock
  readonly inTurn: <Result>(task: () => Promise<Result>) => Promise<Result>
}

/** Files of a folder that are made without a name: they are in no zip, and go with their last handle, until they get one. */
export class NamelessFiles {
  readonly #deps: NamelessDeps

  constructor(deps: NamelessDeps) {
    this.#deps = deps
  }

  async make(parent: DirectoryItem, made: MadeAttributes): Promise<FileItem> {
    const { folder, contents, clock } = this.#deps
    return this.#changing(parent, async () => {
      const base = { id: folder.nextNode(), parent: undefined, name: '', ...made }
      const content = contents.make(made)
      const item: FileItem = { ...base, type: 'file', content, handles: 0, mtimeMs: clock.now() }
      folder.hold(item)
      return Promise.resolve(item)
    })
  }

  /** Gives one a free name; in the journal when it resolves. */
  async link(item: FileItem, parent: DirectoryItem, name: string): Promise<void> {
    const { files, folder, clock } = this.#deps
    if (item.parent !== undefined) throw new DriveError('not-permitted', 'It has a name.')
    await this.#changing(parent, async () => {
      const children = await folder.children(parent)
      if (children.has(name)) throw new DriveError('exists', 'There is something of this name.')
      checkTypedName(name)
      await files.keepNameless(item)
      item.name = name
      folder.add(parent, children, item)
      touch(parent, clock.now())
    })
    try {
      await files.persist(item, { closes: true })
    } catch (error) {
      parent.children?.delete(name)
      item.parent = undefined
      throw error
    }
  }

  async #changing<Result>(parent: DirectoryItem, task: () => Promise<Result>): Promise<Result> {
    const { folder, changes, room, inTurn } = this.#deps
    return inTurn(async () => {
      if (pathOfItem(parent, folder.top) === undefined) {
        throw new DriveError('not-found', 'This folder is gone.')
      }
      await room.check()
      await changes.begin()
      return task()
    })
  }
}
