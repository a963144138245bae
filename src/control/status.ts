import type { CacheStats } from '../content/bag-cache.ts'
import type { BagId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import type { ShownConflict } from '../drive/root/conflicts.ts'
import type { LeftOutFile } from '../drive/folders/left-out.ts'
import type { PinReport } from '../drive/pins.ts'
import type { RefusedChanges, RoomHolder } from '../drive/space/room.ts'
import type { SpaceReport } from '../drive/space/space.ts'
import type { ListingStatus } from '../namespace/listing.ts'
import { listItems, type Sending } from '../outbox/items.ts'
import { percentOf } from '../outbox/words.ts'
import type { TrashReport } from '../trash/trash.ts'
import type { DriveStatus, WireItem } from './protocol.ts'

/** What a running drive is asked for its status. */
export interface StatusDeps {
  readonly outbox: { intents(): readonly Intent[]; damaged(): readonly string[] }
  readonly uploader: Sending
  readonly listing: { status(): ListingStatus }
  readonly cache: { stats(): CacheStats }
  readonly conflicts: () => readonly ShownConflict[]
  readonly leftOut: () => readonly LeftOutFile[]
  readonly roomHolders: () => readonly RoomHolder[]
  readonly refused: () => readonly RefusedChanges[]
  readonly trash: () => TrashReport
  readonly space: () => SpaceReport | undefined
  readonly traffic: () => NonNullable<DriveStatus['traffic']>
  readonly listed: () => Pick<DriveStatus['listing'], 'lagMs' | 'folderNames'>
  readonly pace: () => NonNullable<DriveStatus['pace']>
  readonly pins: () => readonly PinReport[]
  readonly passthrough: () => NonNullable<DriveStatus['passthrough']>
  /** A name in the listing for a bag, if it has one. */
  readonly nameOf: (bagId: BagId) => string | undefined
}

/** What the drive is, and where. */
export type AboutDrive = Pick<
  DriveStatus,
  'mountpoint' | 'pid' | 'profile' | 'service' | 'account' | 'mode' | 'bridge'
>

/** Everything that `bagfs status` and `.bagfs/status` tell, as it is now. */
export function collectStatus(deps: StatusDeps, about: AboutDrive): DriveStatus {
  const { ageMs, records, lastError } = deps.listing.status()
  const { downloads, ...cache } = deps.cache.stats()
  const space = deps.space()
  return {
    version: 1,
    ...about,
    passthrough: deps.passthrough(),
    listing: {
      ageMs: ageMs ?? null,
      records,
      ...(lastError === undefined ? {} : { lastError }),
      ...deps.listed(),
    },
    cache,
    uploads: deps.uploader.progress().map((upload) => ({ ...upload, percent: percentOf(upload) })),
    downloads: downloads.map(({ bagId, received, total }) => {
      const name = deps.nameOf(bagId)
      return {
        bagId,
        ...(name === undefined ? {} : { name }),
        receivedBytes: received,
        ...(total === undefined ? {} : { totalBytes: total }),
      }
    }),
    outbox: [...listItems(deps.outbox.intents(), deps.uploader)],
    conflicts: deps.conflicts().map(({ name, other, atMs }) => ({ name, other, atMs })),
    leftOut: [...deps.leftOut()],
    refused: [...deps.refused()],
    trash: { ...deps.trash() },
    ...(space === undefined ? {} : { space }),
    traffic: deps.traffic(),
    pace: deps.pace(),
    pins: [...deps.pins()],
    damaged: [...deps.outbox.damaged()],
    room: deps.roomHolders().map(({ name, bytes }) => ({ name, bytes })),
  }
}

/** True for what the service is to get; junk of desktops stays here on purpose. */
export function isOwed(item: WireItem): boolean {
  return item.phase !== 'local'
}
