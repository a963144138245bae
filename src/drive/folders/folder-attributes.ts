import { withChanges, type AttributeChanges } from '../../domain/attributes.ts'
import type { ChangeLog } from './change-log.ts'
import type { FolderRoom } from './folder-room.ts'
import type { Folder } from './folder.ts'
import { isSpecial, localContentOf, pathOfItem, type Item } from './items.ts'

interface FolderAttributesDeps {
  readonly folder: Folder
  readonly changes: ChangeLog
  readonly room: FolderRoom
  readonly inTurn: <Result>(task: () => Promise<Result>) => Promise<Result>
}

/** Attributes of what is in a folder: those that a zip can hold are in the journal when a change resolves. */
export class FolderAttributes {
  readonly #deps: FolderAttributesDeps

  constructor(deps: FolderAttributesDeps) {
    this.#deps = deps
  }

  async set(item: Item, changes: AttributeChanges): Promise<void> {
    const { accessTimes } = this.#deps.folder
    const isStored = isForTheZip(item, changes)
    if (isStored && !isSpecial(item)) {
      await this.#deps.inTurn(async () => {
        await this.#noteAttributes(item, changes)
        take(item, changes)
      })
    } else take(item, changes)
    if (changes.atimeMs !== undefined) {
      if (isStored || isSpecial(item)) accessTimes.forget(item)
      else accessTimes.note(item, changes.atimeMs)
    }
    const isLocal = isSpecial(item) || changes.extended !== undefined
    if (changes.extended !== undefined) this.#deps.folder.noteLocalPart(item)
    if (isLocal) this.#deps.folder.keepLocalParts()
  }

  /** What no name leads to is never stored, and its folder may be gone. */
  async #noteAttributes(item: Item, attributes: AttributeChanges): Promise<void> {
    const { changes, folder, room } = this.#deps
    const path = pathOfItem(item, folder.top)
    if (path === undefined) return
    await room.check()
    await changes.begin()
    if (localContentOf(item)?.journaled === false || path === '') return
    changes.append({ op: 'attributes', path, ...attributes })
  }
}

/** A mode or an owner that is set again, or the time of the last read, is no reason to store the folder again. */
function isForTheZip(item: Item, changes: AttributeChanges): boolean {
  const { mode = item.mode, uid = item.uid, gid = item.gid, mtimeMs } = changes
  return mtimeMs !== undefined || mode !== item.mode || uid !== item.uid || gid !== item.gid
}

function take(item: Item, changes: AttributeChanges): void {
  const staged = localContentOf(item)?.staged
  if (staged !== undefined) {
    staged.change(changes)
    Object.assign(item, staged.times)
  }
  Object.assign(item, withChanges(item, changes))
}
