import { once } from 'node:events'
import { join } from 'node:path'
import { readCrashPoint } from '../config/crash-point.ts'
import type { MountSettings } from '../config/mount-settings.ts'
import { findRuntimeDir } from '../config/runtime-dir.ts'
import { hasDesktop } from '../config/desktop.ts'
import { DriveRegistry } from '../control/registry.ts'
import { ControlServer, type ControlActions } from '../control/server.ts'
import { BagCache, type BagCacheDependencies } from '../content/bag-cache.ts'
import { freeBytesOf } from '../content/cache-space.ts'
import { systemClock } from '../domain/clock.ts'
import { canPass, DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Account } from '../domain/record.ts'
import { InflatedFiles } from '../drive/folders/inflated-files.ts'
import { Drive } from '../drive/drive.ts'
import type { Bridge } from '../kernel/bridge.ts'
import { createBridge } from '../kernel/create-bridge.ts'
import { Listing } from '../namespace/listing.ts'
import { OutagePoller } from '../outbox/outage-poller.ts'
import { Outbox } from '../outbox/outbox.ts'
import type { StepListener } from '../outbox/steps.ts'
import type { UploaderDeps } from '../outbox/ports.ts'
import { Uploader } from '../outbox/uploader.ts'
import type { StorageService } from '../service/storage-service.ts'
import { recallUid, rememberUid, stateDirFor } from '../state/accounts.ts'
import { FactsStore } from '../state/facts-store.ts'
import { FolderNamesStore } from '../state/folder-names-store.ts'
import { ListingStore } from '../state/listing-store.ts'
import { acquireLock } from '../state/lock.ts'
import { Reserve } from '../state/reserve.ts'
import { makeCrashHook } from './crash-hook.ts'
import { DriveActions } from './drive-actions.ts'
import { Leaving } from './leave.ts'
import { attachVirtualDirectories, type SelfReport } from './virtual-directories.ts'
import { Notifier, notifySend } from './notify.ts'
import { CONTENT_PATIENCE, openService } from './open-service.ts'
import { Releases } from './releases.ts'
import type { RunDriveDeps } from './running-drive.ts'
import { tuneHeap } from './tune-heap.ts'

/** How long the listing may disagree with what the service confirmed before it is believed. */
const BELIEVE_LISTING_MS = 10 * 60_000
const HOLD_MS = 60_000
/** Content taken out of zips may have this part of the cache's size on top of it. */
const INFLATED_SHARE = 4
const UPLOADS = {
  concurrency: 8,
  retryBaseMs: 1_000,
  retryMaxMs: 5 * 60_000,
}
const LONGEST_SOCKET_PATH = 100

/** The one place that builds a drive: mounts it; resolves when it has been unmounted, however that came about. */
export async function runDrive(settings: MountSettings, deps: RunDriveDeps): Promise<void> {
  const releases = new Releases()
  tuneHeap()
  try {
    const parts = await build(settings, deps, releases)
    await serve(settings, deps, parts, releases)
  } finally {
    await releases.run({ clock: systemClock, log: deps.log })
  }
}

/** Parts that are built after the parts that call them. */
interface BuiltLater {
  uid?: string
  drive?: Drive
  uploader?: Uploader
}

interface Parts {
  readonly stateDir: string
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly drive: Drive
  readonly bridge: Bridge
  readonly cache: BagCache
  readonly facts: FactsStore
  readonly report: SelfReport
}

async function build(
  settings: MountSettings,
  { log, stopSignal, onSecret }: RunDriveDeps,
  releases: Releases,
): Promise<Parts> {
  const clock = systemClock
  const builtLater: BuiltLater = {}
  const service = await openService(settings, {
    ...{ log, onSecret },
    uid: () => builtLater.uid,
    onBack: () => builtLater.uploader?.serviceIsBack(),
  })
  releases.add('service', () => service.close())
  const { stateDir, uid, account } = await findStateDir(settings, { service, log, stopSignal })
  builtLater.uid = uid
  const steps = stepListener(log)
  const state = await openState(stateDir, { log, ...steps }, releases)
  const { facts, outbox } = state
  const listing = await openListing(settings, { service, log, facts }, stateDir, releases)
  const forCache = { service, log, clock, listing, ...state }
  const cache = await openCache(settings, forCache, stateDir, releases)
  const inflated = await openInflated(settings, stateDir, cache, releases)
  const ofDrive = driveForUploader(builtLater)
  const uploader = new Uploader(
    { outbox, service, listing, content: cache, facts, clock, log, ...steps, ...ofDrive },
    { ...UPLOADS, listingLagMs: settings.listingLagMs, durable: settings.writeBack },
  )
  builtLater.uploader = uploader
  releases.add('uploader', () => uploader.close())
  const outagePoller = new OutagePoller({ outbox, service, clock, log })
  releases.add('outage poller', () => outagePoller.close())
  const drive = new Drive(
    { service, listing, cache, inflated, uploader, clock, log, ...state, ...steps },
    {
      writeBack: settings.writeBack,
      readOnly: settings.readOnly,
      description: settings.description,
      umask: settings.umask,
      holdMs: HOLD_MS,
      folderSettleMs: settings.folderSettleMs,
      listingLagMs: BELIEVE_LISTING_MS,
      usualLagMs: settings.listingLagMs,
      ...(account === undefined ? {} : { account }),
    },
  )
  builtLater.drive = drive
  releases.add('drive', () => drive.close())
  const parts = { drive, cache, facts, outbox, uploader }
  const about = aboutDrive(settings, uid)
  const report = attachVirtualDirectories({ ...parts, service, listing, clock }, about)
  if (hasDesktop()) openNotifier(settings, { ...parts, log }, releases)
  const bridge = await createBridge({ drive, log }, settings)
  return { ...parts, stateDir, bridge, report }
}

function openNotifier(
  settings: MountSettings,
  deps: { readonly drive: Drive; readonly outbox: Outbox; readonly log: Logger },
  releases: Releases,
): void {
  const { outbox, log } = deps
  const { conflicts } = deps.drive
  const notifier = new Notifier(
    { outbox, conflicts, clock: systemClock, show: notifySend(log) },
    settings,
  )
  releases.add('notifier', () => notifier.close())
}

async function openInflated(
  { cacheBytes }: MountSettings,
  stateDir: string,
  { room }: BagCache,
  releases: Releases,
): Promise<InflatedFiles> {
  const maxBytes = Math.ceil(cacheBytes / INFLATED_SHARE)
  const dir = join(stateDir, 'inflated')
  const inflated = await InflatedFiles.open({ dir, maxBytes, room })
  releases.add('inflated content', () => {
    inflated.close()
    return Promise.resolve()
  })
  return inflated
}

function aboutDrive({ mountpoint, url, writeBack, readOnly }: MountSettings, account: string) {
  const mode = readOnly ? 'read-only' : writeBack ? 'back' : 'through'
  return { mountpoint, pid: process.pid, service: url, account, mode } as const
}

/** What the uploader calls of the drive, which is built after it. */
function driveForUploader(builtLater: BuiltLater): Pick<UploaderDeps, 'isShown' | 'folders'> {
  const folders = (): Drive['folders'] => {
    if (builtLater.drive === undefined) throw new DriveError('stale', 'The drive is not built yet.')
    return builtLater.drive.folders
  }
  return {
    isShown: (bagId) => builtLater.drive?.shows(bagId) === true,
    folders: {
      pack: (put, path, options) => folders().pack(put, path, options),
      committed: (put, bagId) => folders().committed(put, bagId),
    },
  }
}

interface State {
  readonly facts: FactsStore
  readonly outbox: Outbox
  readonly reserve: Reserve
  readonly folderNames: FolderNamesStore
}

/** Only crash tests have a listener. */
function stepListener(log: Logger): { readonly onStep?: StepListener } {
  const point = readCrashPoint()
  return point === undefined ? {} : { onStep: makeCrashHook(point, log) }
}

async function openState(
  stateDir: string,
  deps: { readonly log: Logger; readonly onStep?: StepListener },
  releases: Releases,
): Promise<State> {
  const lock = await acquireLock(stateDir)
  releases.add('lock', () => lock.release())
  const reserve = new Reserve({ clock: systemClock, log: deps.log }, { dir: stateDir })
  releases.add('reserve', () => reserve.close())
  const facts = await FactsStore.open({ ...deps, reserve }, { dir: stateDir })
  releases.add('facts', () => facts.close())
  const folderNames = await FolderNamesStore.open(deps, { dir: stateDir })
  releases.add('folder names', () => folderNames.close())
  const outbox = await Outbox.open(
    { clock: systemClock, ...deps, reserve },
    { dir: join(stateDir, 'outbox') },
  )
  releases.add('outbox', () => outbox.close())
  await reserve.make()
  return { facts, outbox, folderNames, reserve }
}

interface CacheParts extends Omit<BagCacheDependencies, 'listedSizes' | 'freeBytes'> {
  readonly listing: Listing
  readonly reserve: Reserve
}

async function openCache(
  settings: MountSettings,
  { listing, reserve, ...deps }: CacheParts,
  stateDir: string,
  releases: Releases,
): Promise<BagCache> {
  const listedSizes = (bagId: BagId): readonly number[] => listing.sizesOf(bagId)
  const freeBytes = async (dir: string): Promise<number> =>
    (await freeBytesOf(dir)) - reserve.owedBytes
  const cache = await BagCache.open(
    { ...deps, listedSizes, freeBytes },
    {
      dir: join(stateDir, 'cache'),
      maxBytes: settings.cacheBytes,
      minFreeBytes: settings.minFreeBytes,
      graceMs: 5_000,
      resumeTries: 5,
      silenceMs: CONTENT_PATIENCE * settings.timeoutMs,
    },
  )
  releases.add('cache', () => cache.close())
  return cache
}

async function openListing(
  settings: MountSettings,
  deps: { readonly service: StorageService; readonly log: Logger; readonly facts: FactsStore },
  stateDir: string,
  releases: Releases,
): Promise<Listing> {
  const listing = await Listing.open(
    {
      service: deps.service,
      log: deps.log,
      clock: systemClock,
      store: new ListingStore(stateDir),
      kindOf: (bagId) => deps.facts.get(bagId)?.kind,
    },
    { ttlMs: settings.listingTtlMs, waitMs: 1_000 },
  )
  releases.add('listing', () => listing.close())
  return listing
}

/** One state directory per account; without network, the one that this token had before. */
async function findStateDir(
  { stateDir, serviceKey, token }: MountSettings,
  deps: Pick<RunDriveDeps, 'log' | 'stopSignal'> & { readonly service: StorageService },
): Promise<{ readonly stateDir: string; readonly uid: string; readonly account?: Account }> {
  try {
    const account = await deps.service.getAccount({ signal: deps.stopSignal })
    await rememberUid(stateDir, serviceKey, token, account.uid)
    const { uid } = account
    return { stateDir: stateDirFor(stateDir, serviceKey, uid), uid, account }
  } catch (error) {
    refuseStopped(deps.stopSignal)
    const uid = canPass(error) ? await recallUid(stateDir, serviceKey, token) : undefined
    if (uid === undefined) throw error
    deps.log.warn({ error: String(error) }, 'The service does not answer: mounting what is known.')
    return { stateDir: stateDirFor(stateDir, serviceKey, uid), uid }
  }
}

async function serve(
  settings: MountSettings,
  deps: RunDriveDeps,
  parts: Parts,
  releases: Releases,
): Promise<void> {
  const { stateDir, drive, bridge, uploader } = parts
  const { log, onProgress } = deps
  refuseStopped(deps.stopSignal)
  await Promise.race([drive.start(), aborted(deps.stopSignal)])
  refuseStopped(deps.stopSignal)
  const leaving = new Leaving({ ...parts, clock: systemClock, log })
  const actions = controlActions(parts, leaving)
  await openControl({ actions, log }, { stateDir, mountpoint: settings.mountpoint }, releases)
  await bridge.mount()
  uploader.start()
  deps.nowSignal.addEventListener('abort', () => {
    leaving.hurry()
  })
  if (deps.nowSignal.aborted) leaving.hurry()
  deps.onReady({ mountpoint: settings.mountpoint, pid: process.pid })
  const stopped = aborted(deps.stopSignal).then(() => leaving.unmountForSignal(onProgress))
  await Promise.race([bridge.unmounted, stopped])
  const kept = await leaving.drain(onProgress)
  log.info(
    { kept },
    kept === 0 ? 'Left; everything is stored.' : 'Left; changes wait in the outbox.',
  )
}

function controlActions(parts: Parts, leaving: Leaving): ControlActions {
  const others = new DriveActions({ ...parts, ...parts.report, clock: systemClock })
  const leave: ControlActions['leave'] = async (options) => {
    if (options.now) leaving.hurry()
    await leaving.unmount({ lazy: options.now })
    return leaving.drain(options.onProgress)
  }
  return Object.assign(others, { leave })
}

/** The socket lies in the state directory, unless its path is too long for the kernel. */
async function openControl(
  deps: { readonly actions: ControlActions; readonly log: Logger },
  where: { readonly stateDir: string; readonly mountpoint: string },
  releases: Releases,
): Promise<void> {
  const runtimeDir = findRuntimeDir()
  const inState = join(where.stateDir, 'control.sock')
  const inRuntime = join(runtimeDir, `${process.pid}.sock`)
  const socketPath = inState.length <= LONGEST_SOCKET_PATH ? inState : inRuntime
  const server = await ControlServer.start(deps, { socketPath })
  releases.add('control socket', () => server.close())
  const registry = new DriveRegistry(runtimeDir)
  const registered = { ...where, socketPath, pid: process.pid }
  await registry.add(registered)
  releases.add('registry', () => registry.removeOwn(registered))
}

function refuseStopped({ aborted }: AbortSignal): void {
  if (aborted) throw new DriveError('interrupted', 'Interrupted before mounting.')
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
