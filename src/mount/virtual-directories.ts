import { collectStatus, type AboutDrive } from '../control/status.ts'
import type { DriveStatus } from '../control/protocol.ts'
import type { BagCache } from '../content/bag-cache.ts'
import type { Clock } from '../domain/clock.ts'
import { Contents } from '../drive/root/contents.ts'
import type { Drive } from '../drive/drive.ts'
import { BagsDirectory } from '../drive/virtual/bags-directory.ts'
import { controlDirectory } from '../drive/virtual/control-directory.ts'
import { TrashDirectory } from '../drive/virtual/trash-directory.ts'
import { VOLUME_INFO, volumeInfo } from '../drive/virtual/volume-info.ts'
import { VirtualHome } from '../drive/virtual/virtual-home.ts'
import type { VirtualDirectory } from '../drive/virtual/virtual-entry.ts'
import type { PassthroughState } from '../kernel/bridge.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Listing } from '../namespace/listing.ts'
import type { ListingLag } from '../namespace/listing-lag.ts'
import type { FolderNamesStore } from '../state/folder-names-store.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { StorageService } from '../service/storage-service.ts'
import type { FactsStore } from '../state/facts-store.ts'
import type { Trash } from '../trash/trash.ts'
import { toPrintable, toPrintableJson } from '../domain/printable.ts'
import { describeStatus } from './status-words.ts'

export interface VirtualDirectoriesDeps {
  readonly drive: Drive
  readonly service: StorageService
  readonly listing: Listing
  readonly cache: BagCache
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly facts: FactsStore
  readonly clock: Clock
  readonly trash: Trash
  readonly metrics: Pick<Metrics, 'traffic' | 'pace'>
  readonly listingLag: Pick<ListingLag, 'longestMs'>
  readonly folderNames: Pick<FolderNamesStore, 'get'>
  readonly passthrough: () => PassthroughState
}

/** What the drive tells of itself, for its socket and its made-up files alike. */
export interface SelfReport {
  readonly status: () => DriveStatus
  readonly contents: Contents
}

/** Shows `.bagfs` and `.bags` in the drive, hidden from listings. */
export function attachVirtualDirectories(
  deps: VirtualDirectoriesDeps,
  about: () => AboutDrive,
): SelfReport {
  const { drive, listing, clock, metrics } = deps
  const contents = new Contents(deps)
  const status = (): DriveStatus =>
    collectStatus(
      {
        ...deps,
        conflicts: () => drive.commands.conflicts.list(),
        leftOut: () => drive.commands.leftOut.list(),
        roomHolders: () => drive.space.holders(),
        refused: () => drive.space.refused(),
        trash: () => drive.commands.trash.report(),
        space: () => drive.space.lastReport(),
        traffic: () => metrics.traffic(),
        pace: () => metrics.pace(),
        listed: () => listedBy(deps),
        pins: () => drive.commands.pins.report(),
        passthrough: () => inWire(deps.passthrough()),
        nameOf: (bagId) => listing.current()?.index.recordsOf(bagId)[0]?.name,
      },
      about(),
    )
  const texts = {
    text: () => printableLines(describeStatus(status(), clock.now())),
    json: () => `${toPrintableJson(status())}\n`,
  }
  const attach = (name: string, directory: VirtualDirectory): void => {
    drive.attach(name, (nodes) => new VirtualHome({ nodes, clock }, directory))
  }
  const trash = new TrashDirectory({ trash: deps.trash, rootTrash: drive.commands.trash })
  attach('.bagfs', controlDirectory({ ...deps, contents, status: texts, trash }))
  attach('.bags', new BagsDirectory(deps))
  return { status, contents }
}

function listedBy({
  listingLag,
  folderNames,
}: VirtualDirectoriesDeps): Pick<DriveStatus['listing'], 'lagMs' | 'folderNames'> {
  const [lagMs, names] = [listingLag.longestMs, folderNames.get()]
  return {
    ...(lagMs === undefined ? {} : { lagMs }),
    ...(names === undefined ? {} : { folderNames: names }),
  }
}

/** Tells file managers what to call the drive: by the name of its account. */
export function attachVolumeInfo(
  { drive, clock }: Pick<VirtualDirectoriesDeps, 'drive' | 'clock'>,
  name: string | undefined,
): void {
  drive.standIn(
    VOLUME_INFO,
    (nodes) => new VirtualHome({ nodes, clock }, volumeInfo(name, clock.now())),
  )
}

function inWire(state: PassthroughState): NonNullable<DriveStatus['passthrough']> {
  return state.isActive ? { active: true } : { active: false, reason: state.reason }
}

/** People will `cat` this to a terminal, and names may hold anything. */
function printableLines(text: string): string {
  return text.split('\n').map(toPrintable).join('\n')
}
