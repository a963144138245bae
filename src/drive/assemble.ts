import type { BagCache } from '../content/bag-cache.ts'
import type { SharedRoom } from '../content/shared-room.ts'
import type { Clock } from '../domain/clock.ts'
import type { FolderNaming } from '../domain/folder-names.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import { findFolderNames } from '../namespace/folder-names.ts'
import type { Listing } from '../namespace/listing.ts'
import type { ListingLag } from '../namespace/listing-lag.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { UploaderDeps } from '../outbox/ports.ts'
import type { StepListener } from '../outbox/steps.ts'
import type { AccessTimesStore } from '../state/access-times-store.ts'
import type { LocalPartsStore } from '../state/local-parts-store.ts'
import type { ConflictsStore } from '../state/conflicts-store.ts'
import type { PinsStore } from '../state/pins-store.ts'
import { Uploader } from '../outbox/uploader.ts'
import { Committer } from './root/commit.ts'
import { Conflicts } from './root/conflicts.ts'
import { Contents } from './root/contents.ts'
import { Entries } from './root/entries.ts'
import { BagAttributes } from './root/bag-attributes.ts'
import { Explainer } from './explain.ts'
import { FetchAhead } from './fetch-ahead.ts'
import { Files } from './root/files.ts'
import { FolderUploads } from './folders/folder-uploads.ts'
import { FolderHome } from './folders/folder-home.ts'
import type { InflatedFiles } from './folders/inflated-files.ts'
import { OpenFolders } from './folders/open-folders.ts'
import { Accesses } from './tree/accesses.ts'
import { Handles } from './tree/handles.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import { Jobs } from '../outbox/jobs.ts'
import { Kinds } from './root/kinds.ts'
import { KeptFresh } from './root/kept-fresh.ts'
import { LeftOut } from './folders/left-out.ts'
import { Moves } from './moves/moves.ts'
import { MoveGate } from './moves/move-gate.ts'
import { MissingBags } from './root/missing-bags.ts'
import { NameChanges } from './root/name-changes.ts'
import { Removals } from './root/removals.ts'
import { News } from './tree/news.ts'
import { Nodes, type FileNode } from './tree/nodes.ts'
import { Pins } from './pins.ts'
import { Puts } from './root/puts.ts'
import { RootRoom } from './root/room-beside.ts'
import { RootAttributes } from './root/root-attributes.ts'
import { Renames } from './root/renames.ts'
import { RootHome } from './root/root-home.ts'
import { RootNames } from './root/root-names.ts'
import { RootNodes } from './root/root-nodes.ts'
import { RootTrash } from './root/root-trash.ts'
import type { DriveSettings } from './settings.ts'
import type { Trash } from '../trash/trash.ts'
import { Space } from './space/space.ts'
import { Unclosed } from './unclosed.ts'
import { WarmUp } from './warm-up.ts'

export interface DriveDeps {
  readonly service: UploaderDeps['service']
  readonly listing: Listing
  readonly cache: BagCache
  readonly inflated: InflatedFiles
  readonly trash: Trash
  readonly disk: SharedRoom
  readonly keeper: UploaderDeps['trash']
  readonly outbox: Outbox
  readonly facts: UploaderDeps['facts'] & { onChange(listener: (bagId: BagId) => void): void }
  readonly clock: Clock
  readonly log: Logger
  readonly listingLag: Pick<ListingLag, 'note'>
  readonly folderNames: { get(): FolderNaming | undefined; learn(names: FolderNaming): void }
  readonly localParts: LocalPartsStore
  readonly accessTimes: AccessTimesStore
  readonly pinned: PinsStore
  readonly toldConflicts: ConflictsStore
  readonly onStep?: StepListener
}

/** The parts of a drive that its front needs. */
export type DriveParts = ReturnType<typeof assemble>

const SPACE_TTL_MS = 10_000

/** Puts the parts of a drive together. */
export function assemble(given: DriveDeps, settings: DriveSettings) {
  const nodes = new Nodes()
  const kinds = new Kinds(given)
  const news = new News()
  const rootNames = new RootNames({ nodes, news }, kinds)
  const handles = new Handles()
  const contents = new Contents(given)
  const missing = new MissingBags(given, { lagMs: settings.usualLagMs })
  const entries = new Entries({ ...given, rootNames, news, missing, contents }, settings)
  given.facts.onChange((bagId) => {
    // A listing may have a bag before its upload is confirmed, which tells its kind.
    given.listing.reindex(bagId)
    entries.noteBag(bagId)
  })
  // The records of folders that were stored here tell how the service names all.
  entries.onFresh(({ index }) => {
    kinds.learnNames(findFolderNames(index, given.outbox.intents()))
  })
  entries.onFresh((snapshot) => {
    given.listingLag.note(snapshot, given.outbox.intents())
  })
  const jobs = new Jobs()
  const space = makeSpace(given, settings)
  const accesses = new Accesses(given, settings)
  const known = { ...given, entries, kinds, accesses }
  const attributes = new RootAttributes({ ...known, contents }, settings)
  const puts = new Puts({ ...given, jobs, entries }, settings)
  const leftOut = new LeftOut(given)
  const built = { ...known, jobs, nodes, news, rootNames, space, attributes, puts }
  const openFolders = new OpenFolders({ ...built, missing, leftOut }, settings)
  const folderUploads = new FolderUploads({ ...given, entries, folders: openFolders })
  const uploader = makeUploader({ ...given, jobs, entries, folders: folderUploads }, settings)
  const deps = { ...built, uploader }
  const names = new KeyedLock<'names'>()
  const nodeLocks = new KeyedLock<FileNode>()
  const conflicts = new Conflicts(deps, settings)
  const recorded = { ...deps, conflicts }
  const committer = new Committer({ ...recorded, names, nodeLocks }, settings)
  const rootRoom = new RootRoom(deps)
  const shared = { ...recorded, committer, rootRoom }
  const files = new Files({ ...shared, contents, nodeLocks })
  const extended = new BagAttributes(deps)
  const folders = new FolderHome({ ...shared, folders: openFolders, extended }, settings)
  const removals = new Removals({ ...shared, folders }, settings)
  const changes = new NameChanges({ ...shared, removals }, settings)
  const rootNodes = new RootNodes({ ...shared, folders }, settings)
  const inRoot = { ...shared, names, rootNodes, removals, changes, folders, extended }
  const gate = new MoveGate()
  const renames = new Renames({ ...inRoot, gate })
  const root = new RootHome({ ...inRoot, files, renames }, settings)
  const parts = { ...inRoot, contents, openFolders, root }
  const moves = new Moves({ ...parts, handles, gate, settings })
  const unclosed = new Unclosed({ ...parts, handles })
  const rootTrash = new RootTrash(parts, settings)
  const ahead = { ...parts, fetchAhead: new FetchAhead(given) }
  const pins = new Pins(ahead, settings)
  const explainer = new Explainer({ ...parts, leftOut, rootTrash, pins })
  const warmUp = new WarmUp({ ...ahead, pins })
  const keptFresh = new KeptFresh({ ...given, entries })
  const front = { explainer, warmUp, pins, trash: rootTrash, keptFresh }
  return { ...parts, missing, leftOut, handles, folderUploads, moves, gate, unclosed, ...front }
}

function makeUploader(
  deps: DriveDeps & { jobs: Jobs; folders: FolderUploads; entries: Entries },
  { uploads, usualLagMs, writeBack }: DriveSettings,
): Uploader {
  const { cache, keeper, entries } = deps
  const isShown: UploaderDeps['isShown'] = (bagId) => entries.shows(bagId)
  return new Uploader(
    { ...deps, content: cache, trash: keeper, isShown },
    { ...uploads, listingLagMs: usualLagMs, durable: writeBack },
  )
}

function makeSpace(deps: DriveDeps, { account }: DriveSettings): Space {
  const { outbox } = deps
  const space = new Space(
    { ...deps, intents: () => outbox.intents(), isDiskShort: () => outbox.isShort },
    { ttlMs: SPACE_TTL_MS, ...(account === undefined ? {} : { account }) },
  )
  outbox.onChange((before, after) => {
    space.outboxChanged(before, after)
  })
  return space
}
