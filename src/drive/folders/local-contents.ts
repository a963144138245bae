import { rm } from 'node:fs/promises'
import type { Clock } from '../../domain/clock.ts'
import { keptOf, type KeptAttributes } from '../../domain/attributes.ts'
import { DriveError } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import { copySparse } from '../../zip/sparse-file.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Room, RoomGroup } from '../space/room.ts'
import { StagedFile, type GivenAttributes } from '../tree/staged-file.ts'
import type { ChangeLog } from './change-log.ts'
import { LocalContent, type ArchivedContent } from './item-content.ts'
import { closedContent, itemsOf, type FileItem, type Item } from './items.ts'
import type { Operation } from './journal.ts'
import { Undo } from './undo.ts'

interface LocalContentsDeps {
  readonly outbox: Pick<Outbox, 'createDraft' | 'discardDraft'>
  readonly changes: ChangeLog
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

  /** True while the local disk takes nothing new. */
  get isDiskShort(): boolean {
    return this.#deps.room.isDiskShort
  }

  /** Empty content, open for writing. */
  make(attributes: GivenAttributes): LocalContent & { staged: StagedFile } {
    const content = new LocalContent(this.#deps.changes.files.newFile(), this.#deps.room.room())
    const staged = this.#open(content.path, attributes, content.room, () => content.undo)
    return Object.assign(content, { staged })
  }

  /**
   * Empty content of a file that no name leads to, whose folder may be gone. It goes with its last user, or with
   * this process.
   */
  async makeNameless(attributes: GivenAttributes): Promise<LocalContent & { staged: StagedFile }> {
    const { outbox, room } = this.#deps
    const { id, path } = outbox.createDraft()
    try {
      const content = new LocalContent({ file: '', path }, room.room())
      content.room.giveBack()
      return Object.assign(content, { staged: this.#open(path, attributes, content.room) })
    } finally {
      await outbox.discardDraft(id)
    }
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
      content.staged = this.#open(content.path, keptOf(item), content.room, () => content.undo)
      content.staged.hasUnpromised = false
      if (content.staged.size !== content.length) {
        content.closeStaged()
        throw new DriveError('local-io', `The staged content of ${item.name} is damaged.`)
      }
    }
    return content.staged
  }

  /** A new file outside of the folder. */
  copyAt(path: string, attributes: GivenAttributes): StagedFile {
    const room = this.#deps.room.room()
    room.giveBack()
    return this.#open(path, attributes, room)
  }

  #open(
    path: string,
    attributes: GivenAttributes,
    room: Room,
    before?: () => Undo | undefined,
  ): StagedFile {
    const draft = { id: (this.#deps.changes.id ?? '') as IntentId, path }
    const settings = { attributes, nowMs: this.#deps.clock.now(), room }
    const kept = before === undefined ? settings : { ...settings, before }
    return new StagedFile(draft, NO_BASE, kept).retain()
  }

  /** Content that a copy is made of: it stays while the copy is not promised, unless it is not either. */
  keptFor(content: LocalContent | ArchivedContent): LocalContent | ArchivedContent | undefined {
    if (content.from === 'archive' || content.journaled) return content
    this.#letGo(content)
    return content.before
  }

  /** Content that was closed, and that a zip may be made of, is about to be written in place. */
  keepClosed(content: LocalContent): void {
    if (content.isClosed) content.undo ??= this.#undoOf(content)
  }

  #undoOf({ file, length, staged }: LocalContent): Undo {
    const { changes } = this.#deps
    const closed = { length: Math.min(length, staged?.size ?? length), operations: changes.count }
    return new Undo(changes.files.undoPath(file), closed)
  }

  /**
   * Content that is written in place although it was closed: what was closed is from now on in a file of
   * its own, which the journal has. The caller has the turn.
   */
  async splitOff(item: FileItem, content: LocalContent, path: string): Promise<void> {
    const { undo } = content
    if (undo?.isBegun !== true) {
      content.dropUndo()
      return
    }
    const { changes } = this.#deps
    const closed = new LocalContent(changes.files.newFile(), this.#deps.room.room())
    // The content that goes on takes the room.
    closed.room.giveBack()
    Object.assign(closed, { length: undo.length, journaled: true, isClosed: true })
    try {
      await copySparse(content.path, closed.path, undo.length)
      await undo.layOver(closed.path)
      changes.repeat(fileOperation(keptOf(item), closed, path, this.#deps.clock.now()))
    } catch (error) {
      await rm(closed.path, { force: true })
      throw error
    }
    content.isClosed = false
    content.journaled = undo.isOutdated
    content.before = closed
    content.dropUndo()
    await changes.sync()
  }

  /** The journal names it now: of what was before only what was closed is still of use. */
  noteJournaled(content: LocalContent): void {
    content.journaled = true
    if (content.undo !== undefined) content.undo.isOutdated = true
    while (content.before?.from === 'local' && !content.before.isClosed) {
      const { before } = content
      content.before = before.before
      this.#letGo(before)
    }
  }

  /**
   * True when content that is in the journal became what the folder is to be stored with. What is written
   * into it already comes after that.
   */
  noteClosed(content: LocalContent): boolean {
    if (!content.journaled || !content.isWritten) return false
    content.dropUndo()
    content.isClosed = true
    if (content.staged?.hasUnpromised === true) this.keepClosed(content)
    this.#letGo(content.before)
    content.before = undefined
    return true
  }

  /**
   * `target` is replaced by a file that was never closed: that is stored with what `target` had, until it is closed.
   * True when `target` has no content any more that is to be discarded.
   */
  handOn(target: FileItem, item: FileItem): boolean {
    const closed = closedContent(target)
    const oldest = [...versionsOf(item)].at(-1)
    if (closed === undefined || oldest === undefined || closedContent(item) !== undefined)
      return false
    if (closed.from === 'archive') {
      oldest.before = closed
      return false
    }
    // What a program has open is not kept as it was closed.
    if (target.handles > 0) return false
    oldest.before = closed
    for (const content of versionsOf(target)) {
      if (content === closed) return true
      this.#letGo(content)
    }
    return true
  }

  /** The file has no name any more: it will never be stored, and need not stay as it was closed. */
  noteUnlinked(item: FileItem): void {
    for (const content of versionsOf(item)) {
      content.room.giveBack()
      content.dropUndo()
      content.isClosed = false
    }
  }

  /** No file has this content any more, nor what was before it. */
  forget(item: FileItem): void {
    for (const content of versionsOf(item)) this.#letGo(content)
  }

  /** Half a file is taken back: the item has what it had before, as it was closed. */
  async takeBack(
    item: FileItem,
    content: LocalContent,
    before: LocalContent | ArchivedContent,
  ): Promise<void> {
    item.content = before
    content.closeStaged()
    this.#letGo(content)
    if (before.from !== 'local' || before.undo === undefined) return
    await before.undo.layOver(before.path)
    before.closeStaged()
    before.dropUndo()
    before.room.hold(before.length)
  }

  /** Its file goes once the journal is safe without it. */
  #letGo(content: LocalContent | ArchivedContent | undefined): void {
    if (content?.from !== 'local') return
    content.letGo(() => {
      this.#deps.changes.dropFile(content.path)
    })
  }
}

/** The line of the journal that says what a file has. */
export function fileOperation(
  kept: KeptAttributes,
  { length, file, sha256 }: Pick<LocalContent, 'length' | 'file'> & { readonly sha256?: string },
  path: string,
  atMs: number,
): Extract<Operation, { op: 'file' }> {
  const sum = sha256 === undefined ? {} : { sha256 }
  return { op: 'file', path, atMs, file, length, ...sum, ...keptOf(kept) }
}

function* filesOf(top: Item): Generator<FileItem> {
  for (const item of itemsOf(top)) if (item.type === 'file') yield item
}

/** Content of this machine that a file has, and had before that. */
export function* versionsOf(item: Pick<FileItem, 'content'>): Generator<LocalContent> {
  let at: LocalContent | ArchivedContent | undefined = item.content
  for (; at?.from === 'local'; at = at.before) yield at
}
