import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { Room, RoomGroup } from '../room.ts'
import { StagedFile } from '../staged-file.ts'
import type { FolderWork } from './folder-work.ts'
import { LocalContent, type ArchivedContent } from './item-content.ts'
import { itemsOf, type FileItem, type Item } from './items.ts'

interface LocalContentsDeps {
  readonly work: FolderWork
  /** What the folder takes of the account. */
  readonly room: RoomGroup
  readonly clock: Clock
}

const NO_BASE = { replaces: [], supersedes: [] }

/** The files in the staging directory of a folder, and the room that they take of the account. */
export class LocalContents {
  readonly #deps: LocalContentsDeps

  constructor(deps: LocalContentsDeps) {
    this.#deps = deps
  }

  /** Empty content, open for writing. */
  make(mode: number): LocalContent & { staged: StagedFile } {
    const content = new LocalContent(this.#deps.work.newFile(), this.#deps.room.room())
    const staged = this.#open(content.path, mode, content.room)
    return Object.assign(content, { staged })
  }

  /** Content that an earlier change left in the journal; it takes no room before `count`. */
  kept(place: { readonly file: string; readonly path: string }, length: number): LocalContent {
    const content = new LocalContent(place, this.#deps.room.room())
    return Object.assign(content, { length, journaled: true, isClosed: true })
  }

  /** Takes room for all content of a tree. */
  count(top: Item): void {
    for (const { content } of filesOf(top)) {
      if (content.from === 'local') content.room.hold(content.staged?.size ?? content.length)
    }
  }

  /** Gives back what a tree takes: it will not be sent from here. */
  giveBack(top: Item): void {
    for (const item of filesOf(top)) {
      for (const content of versionsOf(item)) content.room.giveBack()
    }
  }

  stagedOf(item: FileItem, content: LocalContent): StagedFile {
    if (content.staged === undefined) {
      content.staged = this.#open(content.path, item.mode, content.room)
      content.staged.mtimeMs = item.mtimeMs
      content.staged.dirty = false
      if (content.staged.size !== content.length) {
        content.closeStaged()
        throw new DriveError('local-io', `The staged content of ${item.name} is damaged.`)
      }
    }
    return content.staged
  }

  /** A new file outside of the folder. */
  copyAt(path: string, mode: number): StagedFile {
    const room = this.#deps.room.room()
    room.giveBack()
    return this.#open(path, mode, room)
  }

  #open(path: string, mode: number, room: Room): StagedFile {
    const draft = { id: (this.#deps.work.id ?? '') as IntentId, path }
    return new StagedFile(draft, NO_BASE, { mode, nowMs: this.#deps.clock.now(), room }).retain()
  }

  /** Content that a copy is made of: it stays while the copy is not promised, unless it is not either. */
  keptFor(content: LocalContent | ArchivedContent): LocalContent | ArchivedContent | undefined {
    if (content.from === 'archive' || content.journaled) return content
    this.#letGo(content)
    return content.before
  }

  /** The journal names it now: of what was before only what was closed is still of use. */
  noteJournaled(content: LocalContent): void {
    content.journaled = true
    while (content.before?.from === 'local' && !content.before.isClosed) {
      const { before } = content
      content.before = before.before
      this.#letGo(before)
    }
  }

  /** True when content that is in the journal became what the folder is to be stored with. */
  noteClosed(content: LocalContent): boolean {
    if (!content.journaled || content.staged?.dirty === true) return false
    if (content.isClosed && !content.isTorn) return false
    content.isClosed = true
    content.isTorn = false
    this.#letGo(content.before)
    content.before = undefined
    return true
  }

  /** No file has this content any more, nor what was before it. */
  forget(item: FileItem): void {
    for (const content of versionsOf(item)) this.#letGo(content)
  }

  /** Half a file is taken back: the item has what it had before. */
  takeBack(item: FileItem, content: LocalContent, before: LocalContent | ArchivedContent): void {
    item.content = before
    content.closeStaged()
    this.#letGo(content)
  }

  /** Its file goes once the journal is safe without it. */
  #letGo(content: LocalContent | ArchivedContent | undefined): void {
    if (content?.from !== 'local') return
    content.letGo(() => {
      this.#deps.work.dropFile(content.path)
    })
  }
}

function* filesOf(top: Item): Generator<FileItem> {
  for (const item of itemsOf(top)) if (item.type === 'file') yield item
}

/** Content of this machine that a file has, and had before that. */
function* versionsOf(item: FileItem): Generator<LocalContent> {
  let at: LocalContent | ArchivedContent | undefined = item.content
  for (; at?.from === 'local'; at = at.before) yield at
}
