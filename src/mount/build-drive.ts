import { join } from 'node:path'
import type { MountSettings } from '../config/mount-settings.ts'
import { BagCache } from '../content/bag-cache.ts'
import { freeBytesOf } from '../content/cache-space.ts'
import { SharedRoom } from '../content/shared-room.ts'
import type { SyncFileSystem } from '../disk/group-sync.ts'
import type { Clock } from '../domain/clock.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Account } from '../domain/record.ts'
import { Drive } from '../drive/drive.ts'
import { InflatedFiles } from '../drive/folders/inflated-files.ts'
import type { DriveSettings } from '../drive/settings.ts'
import { Listing } from '../namespace/listing.ts'
import { ListingLag } from '../namespace/listing-lag.ts'
import { Outbox } from '../outbox/outbox.ts'
import { onWayBack } from '../outbox/restored.ts'
import type { StepListener } from '../outbox/steps.ts'
import { CONTENT_PATIENCE } from '../service/settings.ts'
import type { StorageService } from '../service/storage-service.ts'
import { FactsStore } from '../state/facts-store.ts'
import { ConflictsStore } from '../state/conflicts-store.ts'
import { PinsStore } from '../state/pins-store.ts'
import { openAccessTimes, type AccessTimesStore } from '../state/access-times-store.ts'
import { openLocalParts, type LocalPartsStore } from '../state/local-parts-store.ts'
import { FolderNamesStore } from '../state/folder-names-store.ts'
import { ListingStore } from '../state/listing-store.ts'
import { acquireLock } from '../state/lock.ts'
import { Reserve } from '../state/reserve.ts'
import { Keeper } from '../trash/keeper.ts'
import { Trash } from '../trash/trash.ts'
import type { Releases } from './releases.ts'

/** Content taken out of zips may have this part of the cache's size on top of it. */
const INFLATED_SHARE = 4

/** What no option sets. */
export interface Tuning extends Pick<
  DriveSettings,
  'holdMs' | 'listingLagMs' | 'idleFolders' | 'pins' | 'uploads'
> {
  /** How long a download goes on after its last reader, in milliseconds. */
  readonly graceMs: number
  /** How often in a row a download that was cut is taken up again. */
  readonly resumeTries: number
}

/** The tuning of a mount. */
export const TUNING: Tuning = {
  holdMs: 60_000,
  listingLagMs: 10 * 60_000,
  idleFolders: { count: 256, keptMs: 30_000 },
  pins: { followMs: 60_000, forgetMs: 60_000 },
  uploads: { concurrency: 8, retryBaseMs: 1_000, retryMaxMs: 5 * 60_000, deletingMs: 15_000 },
  graceMs: 5_000,
  resumeTries: 5,
}

export interface BuildDeps {
  readonly service: StorageService
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
  readonly syncFileSystem?: SyncFileSystem
}

export type BuildSettings = Pick<
  MountSettings,
  | 'writeBack'
  | 'readOnly'
  | 'description'
  | 'umask'
  | 'folderRestMs'
  | 'keepDeletedMs'
  | 'fetchDeletedBytes'
  | 'listingTtlMs'
  | 'listingLagMs'
  | 'cacheBytes'
  | 'minFreeBytes'
  | 'timeoutMs'
> & {
  /** The state directory of the account; it must be there. */
  readonly stateDir: string
  /** The account as the service told it just now; undefined when it did not. */
  readonly account?: Account | undefined
}

export interface BuiltDrive {
  readonly drive: Drive
  readonly listing: Listing
  readonly listingLag: ListingLag
  readonly cache: BagCache
  readonly facts: FactsStore
  readonly outbox: Outbox
  readonly folderNames: FolderNamesStore
  readonly trash: Trash
}

/** Builds a drive of its parts, below all that mounts it; `releases` lets them go in the reverse order. */
export async function buildDrive(
  deps: BuildDeps,
  settings: BuildSettings,
  releases: Releases,
  tuning: Tuning = TUNING,
): Promise<BuiltDrive> {
  const state = await openState(deps, settings, releases)
  const withState = { ...deps, ...state }
  const listing = await openListing(withState, settings, releases)
  const cache = await openCache({ ...withState, listing }, settings, tuning, releases)
  const trash = await openTrash(withState, cache, settings, releases)
  const disk = new SharedRoom(deps, cache.room)
  const inflated = await openInflated(disk, settings, releases)
  disk.add(() => Promise.resolve(inflated.evictOne()))
  disk.add(() => trash.giveUpOldest())
  const keeper = makeKeeper({ ...withState, trash, listing, cache }, settings, releases)
  const listingLag = new ListingLag()
  const drive = new Drive(
    { ...withState, listing, listingLag, cache, inflated, trash, keeper, disk },
    driveSettings(settings, tuning),
  )
  releases.add('drive', () => drive.close())
  const { facts, outbox, folderNames } = state
  return { drive, listing, listingLag, cache, facts, outbox, folderNames, trash }
}

function driveSettings(settings: BuildSettings, tuning: Tuning): DriveSettings {
  const { writeBack, readOnly, description, umask, folderRestMs, account } = settings
  return {
    ...{ writeBack, readOnly, description, umask, folderRestMs },
    holdMs: tuning.holdMs,
    listingLagMs: tuning.listingLagMs,
    idleFolders: tuning.idleFolders,
    pins: tuning.pins,
    usualLagMs: settings.listingLagMs,
    uploads: tuning.uploads,
    ...(account === undefined ? {} : { account }),
  }
}

interface State {
  readonly facts: FactsStore
  readonly outbox: Outbox
  readonly reserve: Reserve
  readonly folderNames: FolderNamesStore
  readonly localParts: LocalPartsStore
  readonly accessTimes: AccessTimesStore
  readonly pinned: PinsStore
  readonly toldConflicts: ConflictsStore
}

async function openState(
  deps: BuildDeps,
  { stateDir }: BuildSettings,
  releases: Releases,
): Promise<State> {
  const lock = await acquireLock(stateDir)
  releases.add('lock', () => lock.release())
  const reserve = new Reserve(deps, { dir: stateDir })
  releases.add('reserve', () => reserve.close())
  const facts = await FactsStore.open({ ...deps, reserve }, { dir: stateDir })
  releases.add('facts', () => facts.close())
  const folderNames = await FolderNamesStore.open(deps, { dir: stateDir })
  releases.add('folder names', () => folderNames.close())
  const localParts = await openLocalParts(deps, { dir: stateDir })
  releases.add('local parts', () => localParts.close())
  const accessTimes = await openAccessTimes(deps, { dir: stateDir })
  releases.add('access times', () => accessTimes.close())
  const pinned = await PinsStore.open(deps, { dir: stateDir })
  releases.add('pins', () => pinned.close())
  const toldConflicts = await ConflictsStore.open(deps, { dir: stateDir })
  releases.add('told conflicts', () => toldConflicts.close())
  const outbox = await Outbox.open({ ...deps, reserve }, { dir: join(stateDir, 'outbox') })
  releases.add('outbox', () => outbox.close())
  await reserve.make()
  return { facts, outbox, folderNames, localParts, accessTimes, pinned, toldConflicts, reserve }
}

async function openListing(
  deps: BuildDeps & Pick<State, 'facts'>,
  { stateDir, listingTtlMs }: BuildSettings,
  releases: Releases,
): Promise<Listing> {
  const listing = await Listing.open(
    {
      ...deps,
      store: new ListingStore(stateDir),
      kindOf: (bagId) => deps.facts.get(bagId)?.kind,
    },
    { ttlMs: listingTtlMs, waitMs: 1_000 },
  )
  releases.add('listing', () => listing.close())
  return listing
}

async function openCache(
  { listing, reserve, pinned, ...deps }: BuildDeps & State & { readonly listing: Listing },
  { stateDir, cacheBytes, minFreeBytes, timeoutMs }: BuildSettings,
  { graceMs, resumeTries }: Tuning,
  releases: Releases,
): Promise<BagCache> {
  const cache = await BagCache.open(
    {
      ...deps,
      listedSizes: (bagId) => listing.sizesOf(bagId),
      pinned: pinned.all().flatMap(({ bagId }) => bagId ?? []),
      freeBytes: async (dir) => (await freeBytesOf(dir)) - reserve.owedBytes,
    },
    {
      ...{ minFreeBytes, graceMs, resumeTries },
      dir: join(stateDir, 'cache'),
      maxBytes: cacheBytes,
      silenceMs: CONTENT_PATIENCE * timeoutMs,
    },
  )
  releases.add('cache', () => cache.close())
  return cache
}

/** The trash may take as much of the disk as the cache. */
async function openTrash(
  { outbox, ...deps }: BuildDeps & State,
  { room }: BagCache,
  { stateDir, cacheBytes, keepDeletedMs }: BuildSettings,
  releases: Releases,
): Promise<Trash> {
  const trash = await Trash.open(
    { ...deps, disk: room, onWayBack: () => onWayBack(outbox.intents()) },
    { dir: join(stateDir, 'trash'), keptMs: keepDeletedMs, maxBytes: cacheBytes },
  )
  releases.add('trash', () => trash.close())
  return trash
}

function makeKeeper(
  deps: BuildDeps &
    State & { readonly trash: Trash; readonly listing: Listing; readonly cache: BagCache },
  { fetchDeletedBytes }: BuildSettings,
  releases: Releases,
): Keeper {
  const { cache, listing } = deps
  const listedSizes = (bagId: BagId): readonly number[] => listing.sizesOf(bagId)
  const keeper = new Keeper({ ...deps, content: cache, listedSizes, fetchDeletedBytes })
  releases.add('keeper of the trash', () => {
    keeper.close()
    return Promise.resolve()
  })
  return keeper
}

async function openInflated(
  room: SharedRoom,
  { stateDir, cacheBytes }: BuildSettings,
  releases: Releases,
): Promise<InflatedFiles> {
  const inflated = await InflatedFiles.open({
    dir: join(stateDir, 'inflated'),
    maxBytes: Math.ceil(cacheBytes / INFLATED_SHARE),
    room,
  })
  releases.add('inflated content', () => {
    inflated.close()
    return Promise.resolve()
  })
  return inflated
}
