import type { DriveStatus, WireItem, WireTrashItem } from '../control/protocol.ts'
import type { DriveError } from '../domain/errors.ts'

/** What a look at the drive found. */
export interface Sighting {
  readonly mountpoint: string
  /** The command that mounts the drive again. */
  readonly mountAgain: string
  /** Undefined while no drive answers. */
  readonly status?: DriveStatus
  /** Why none answers, though one is there. */
  readonly trouble?: DriveError
  readonly outbox: readonly WireItem[]
  readonly trash: readonly WireTrashItem[]
}
