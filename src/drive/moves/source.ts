import type { MovedTo } from '../../intents/intent.ts'
import type { Item } from '../folders/items.ts'
import type { JournalItem } from '../folders/journal.ts'
import type { OpenFolder } from '../folders/open-folder.ts'
import type { HandleId } from '../../domain/ids.ts'
import type { OpenMode } from '../tree/open-file.ts'
import type { NewPlace } from '../folders/leaving-links.ts'

/** A file that is open below some directory; an empty path for what is moved itself. */
export interface OpenPath {
  readonly id: HandleId
  readonly path: string
  readonly mode: OpenMode
}

/** What leaves a folder or the root. */
export interface MoveSource {
  readonly type: Item['type']
  /** Where it is, from the root. */
  readonly path: string
  /** What was open when the move began. */
  readonly handles: readonly OpenPath[]
  /** What is open by now; what it was opened for writing since the move began speaks against the move. */
  openNow(): readonly OpenPath[]
  /** The folder that it is in, or that it is; undefined for a file of the root. */
  readonly folder: OpenFolder | undefined
  /** True when it is a name of the root: the lock of names is held while it goes. */
  readonly isInRoot: boolean
  /** Throws what speaks against the move as things are now. */
  check(place: NewPlace | undefined): void
  /** Bytes that the account must take once more: no room is held for them yet. */
  unheldBytes(): Promise<number>
  /** Copies all content into `dir`, while it may still change. */
  copyTo(dir: string): Promise<void>
  /** What is there now, every content of it copied. The locks are held. */
  finish(): Promise<readonly JournalItem[]>
  /** Takes it away from its old place; no bag is deleted for that before `to` is stored. The locks are held. */
  remove(to: MovedTo): Promise<void>
  /** To be called at the end, however it went. */
  release(): void
}
