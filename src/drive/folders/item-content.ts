import type { Archive } from '../../zip/archive.ts'
import type { LeafNode } from '../../zip/tree.ts'
import type { Room } from '../space/room.ts'
import type { StagedFile } from '../tree/staged-file.ts'
import type { Undo } from './undo.ts'

/** Content of an entry of the folder's zip. */
export interface ArchivedContent {
  readonly from: 'archive'
  readonly archive: Archive
  readonly node: LeafNode
}

/** Content that was written here: a file in the folder's staging directory. */
export class LocalContent {
  readonly from = 'local'
  /** Name of the file: a number. */
  readonly file: string
  readonly path: string
  /** What it takes of the account until the folder is stored with it, or it is gone. */
  readonly room: Room
  /** Bytes that the journal promises. */
  length = 0
  /** Open while a program reads or writes it. */
  staged: StagedFile | undefined
  /** True once the journal names it: a kill does not take it. */
  journaled = false
  /** True when the journal has its sum: it must not change in place. */
  hasSum = false
  /** The group of what is to be on the platter that the journal's line is in; see `GroupSync`. */
  group: number | undefined
  /** True once it was closed or synced as a whole: this is what the folder is stored with. */
  isClosed = false
  /** While it is written in place although it was closed: what it was when it was. */
  undo: Undo | undefined
  /** Until it is closed: the content of before, which the folder is stored with. */
  before: LocalContent | ArchivedContent | undefined
  /** As it was when it was last open. */
  #allocated: number | undefined
  /** How many zips and copies read it now. */
  #readers = 0
  /** Removes the file; set once no file of the folder has this content any more. */
  #remove: (() => void) | undefined

  constructor(place: { readonly file: string; readonly path: string }, room: Room) {
    this.file = place.file
    this.path = place.path
    this.room = room
  }

  /** See `Attributes`; not known of what an earlier process wrote, until it is opened. */
  get allocated(): number | undefined {
    return this.staged === undefined ? this.#allocated : this.staged.allocated
  }

  /** True while it is not, or no longer, what the folder is stored with. */
  get isWritten(): boolean {
    return !this.isClosed || this.undo !== undefined
  }

  /** As `StagedFile.isDraft` of the root: while it is frozen a write goes to a copy of it. */
  get isFrozen(): boolean {
    return this.#readers > 0
  }

  /** It stays as it is until as many calls of `thaw` have come. */
  freeze(): void {
    this.#readers += 1
  }

  /** Content that was let go of while it was frozen goes now. */
  thaw(): void {
    this.#readers -= 1
    if (this.#readers === 0) this.#remove?.()
  }

  /** What was closed is not needed any more: it was closed anew, or is kept elsewhere. */
  dropUndo(): void {
    const { undo } = this
    this.undo = undefined
    undo?.drop()
  }

  /** No file of the folder has it any more: `remove` is called once it is not read any more. */
  letGo(remove: () => void): void {
    this.room.giveBack()
    this.dropUndo()
    this.#remove = remove
    if (!this.isFrozen) remove()
  }

  /** Lets go of the open file; it is opened again at the next use. */
  closeStaged(): void {
    this.#allocated = this.allocated
    this.staged?.close()
    this.staged = undefined
  }
}

/** True for content that may be written in place, without a look at what it was. */
export function isChangeable(content: LocalContent): boolean {
  return !content.isFrozen && content.isWritten && !content.hasSum
}
