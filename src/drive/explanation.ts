import type { ShownConflict } from './root/conflicts.ts'
import type { LeftOutFile } from './folders/left-out.ts'
import type { RefusedChanges } from './space/room.ts'
import type { PinReport } from './pins.ts'
import type { OutboxItem } from '../outbox/items.ts'
import type { TrashItem } from '../trash/item.ts'

/**
 * Where bytes are.
 * - `service`: the service has them
 * - `cache`, `part-in-cache`: this machine has all or some of what the service has
 * - `outbox`: they wait on this machine for the service
 * - `this-machine`: here alone, and nothing is to be sent as it is now
 * - `trash`: kept on this machine for a while
 */
export type BytesPlace = 'service' | 'cache' | 'part-in-cache' | 'outbox' | 'this-machine' | 'trash'

/** Why a name of the root is not what the service calls the bag, or has others beside it. */
export interface NameReasons {
  /** As the service has it. */
  readonly service: string
  /**
   * - `coded`: Linux cannot have it, or it means something else in a drive
   * - `cut`: it is too long for Linux
   * - `zip`: the service puts `.zip` behind the names of folders
   * - `older`: something newer has the plain name
   */
  readonly why: readonly ('coded' | 'cut' | 'zip' | 'older')[]
  /** What else wants the same name, as it shows. */
  readonly others: readonly string[]
}

/** Everything that is known of what is at a path of a drive. Times in ms since the epoch. */
export interface Explanation {
  /** From the root of the drive, without a slash before it; empty for the drive itself. */
  readonly path: string
  readonly what:
    'drive' | 'file' | 'folder' | 'directory' | 'link' | 'special' | 'made-up' | 'missing'
  /** As `user.bagfs.state` has it; nothing for what is not stored by itself. */
  readonly state?: string
  readonly bagId?: string
  readonly bytes?: number
  readonly places: readonly BytesPlace[]
  /** Where only some of a bag is here: how much, and whether more is coming. */
  readonly cached?: { readonly bytes: number; readonly isDownloading: boolean }
  /** False while the service's listing does not have a bag that is known to be there. */
  readonly isListed?: boolean
  /** The service has the version of before. */
  readonly hasOlder?: boolean
  readonly name?: NameReasons
  /** The folder of the root that it is in, as it shows. */
  readonly folder?: string
  /** Changes of it that the service does not have, or has not done all for; of the folder where it is in one. */
  readonly changes: readonly OutboxItem[]
  /** Other changes that come before these. */
  readonly waitsFor: readonly OutboxItem[]
  readonly conflicts: readonly Pick<ShownConflict, 'name' | 'other' | 'atMs'>[]
  readonly leftOut: readonly LeftOutFile[]
  readonly refused?: RefusedChanges
  /** How it is kept on this machine, or the folder that it is in, where that is pinned. */
  readonly pin?: PinReport
  /** What the trash has of this name, the newest first; of what was in a folder, the newest version of that which has it. */
  readonly inTrash: readonly Pick<
    TrashItem,
    'bagId' | 'name' | 'why' | 'isFolder' | 'length' | 'deletedAtMs'
  >[]
  /** Why nothing can be told of what is in a folder. */
  readonly unreadable?: string
  /** Why there is no newer listing, when the last request for one failed. */
  readonly outage?: string
  /** For what the drive makes up: which part of it. */
  readonly madeUp?: 'control' | 'change' | 'trash' | 'bags' | 'bag' | 'volume'
}
