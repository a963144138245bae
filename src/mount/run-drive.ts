import { once } from 'node:events'
import { join } from 'node:path'
import { readCrashPoint } from '../config/crash-point.ts'
import type { MountSettings } from '../config/mount-settings.ts'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { findRuntimeDir } from '../config/runtime-dir.ts'
import { hasDesktop } from '../config/desktop.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { ControlServer, type ControlActions } from '../control/server.ts'
import { systemClock } from '../domain/clock.ts'
import { canPass, DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { Account } from '../domain/record.ts'
import type { Drive } from '../drive/drive.ts'
import type { Bridge } from '../kernel/bridge.ts'
import { makeSyncFileSystem } from '../kernel/sync-file-system.ts'
import { createBridge } from '../kernel/create-bridge.ts'
import { Metrics } from '../metrics/metrics.ts'
import { MetricsServer } from '../metrics/metrics-server.ts'
import { OutagePoller } from '../outbox/outage-poller.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { StepListener } from '../outbox/steps.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { StorageService } from '../service/storage-service.ts'
import { recallUid, rememberUid, stateDirFor } from '../state/accounts.ts'
import type { FactsStore } from '../state/facts-store.ts'
import type { BagCache } from '../content/bag-cache.ts'
import { processOf } from '../kernel/asking-process.ts'
import { TraceHub } from '../trace/trace-hub.ts'
import { withTraces } from '../trace/traced-watch.ts'
import type { Trash } from '../trash/trash.ts'
import { buildDrive } from './build-drive.ts'
import { makeCrashHook } from './crash-hook.ts'
import { DriveActions } from './drive-actions.ts'
import { Leaving } from './leave.ts'
import {
  attachVirtualDirectories,
  attachVolumeInfo,
  type SelfReport,
} from './virtual-directories.ts'
import { Notifier, notifySend } from './notify.ts'
import { openService } from './open-service.ts'
import { Releases } from './releases.ts'
import type { RunDriveDeps } from './running-drive.ts'

const LONGEST_SOCKET_PATH = 100

/** Mounts a drive; resolves when it has been unmounted, however that came about. */
export async function runDrive(settings: MountSettings, deps: RunDriveDeps): Promise<void> {
  const releases = new Releases()
  try {
    const parts = await build(settings, deps, releases)
    await serve(settings, deps, parts, releases)
  } finally {
    await releases.run({ clock: systemClock, log: deps.log })
  }
}

interface Parts {
  readonly stateDir: string
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly drive: Drive
  readonly bridge: Bridge
  readonly cache: BagCache
  readonly facts: FactsStore
  readonly trash: Trash
  readonly report: SelfReport
  readonly metrics: Metrics
  readonly traces: TraceHub
}

async function build(
  settings: MountSettings,
  { log, stopSignal, onSecret }: RunDriveDeps,
  releases: Releases,
): Promise<Parts> {
  const clock = systemClock
  const metrics = new Metrics()
  const opened = await openService(settings, { log, onSecret, meter: metrics })
  const { service } = opened
  releases.add('service', () => service.close())
  const { stateDir, uid, account } = await findStateDir(settings, { service, log, stopSignal })
  const built = await buildDrive(
    { service, clock, log, syncFileSystem: makeSyncFileSystem(), ...stepListener(log) },
    { ...settings, stateDir, account },
    releases,
  )
  const { drive, outbox } = built
  const { uploader } = drive
  opened.usedBy({
    uid,
    onBack: () => {
      uploader.serviceIsBack()
      drive.commands.pins.serviceIsBack()
    },
  })
  const outagePoller = new OutagePoller({ outbox, service, clock, log })
  releases.add('outage poller', () => outagePoller.close())
  const parts = { ...built, uploader }
  attachVolumeInfo({ drive, clock }, settings.profile)
  if (hasDesktop()) openNotifier(settings, { ...parts, log }, releases)
  const traces = new TraceHub({ clock, processOf })
  const watch = withTraces(metrics, traces)
  const bridge = await createBridge(settings.bridge, { drive, log, watch }, settings)
  const passthrough = () => bridge.passthrough
  const about = () => ({ ...aboutDrive(settings, uid), mountpoint: bridge.mountpoint })
  const report = attachVirtualDirectories({ ...parts, service, clock, metrics, passthrough }, about)
  return { ...parts, stateDir, bridge, report, metrics, traces }
}

function openNotifier(
  settings: MountSettings,
  deps: { readonly drive: Drive; readonly outbox: Outbox; readonly log: Logger },
  releases: Releases,
): void {
  const { outbox, log } = deps
  const { conflicts } = deps.drive.commands
  const notifier = new Notifier(
    { outbox, conflicts, clock: systemClock, show: notifySend(log) },
    settings,
  )
  releases.add('notifier', () => notifier.close())
}

function aboutDrive(settings: MountSettings, account: string) {
  const { profile, url, writeBack, readOnly, bridge } = settings
  const mode = readOnly ? 'read-only' : writeBack ? 'back' : 'through'
  const named = profile === undefined ? {} : { profile }
  return { pid: process.pid, ...named, service: url, account, mode, bridge } as const
}

/** Only crash tests have a listener. */
function stepListener(log: Logger): { readonly onStep?: StepListener } {
  const point = readCrashPoint()
  return point === undefined ? {} : { onStep: makeCrashHook(point, log) }
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
  const { stateDir, drive, bridge, uploader, metrics } = parts
  const { log, onProgress } = deps
  refuseStopped(deps.stopSignal)
  await Promise.race([drive.start(), aborted(deps.stopSignal)])
  refuseStopped(deps.stopSignal)
  const leaving = new Leaving({ ...parts, clock: systemClock, log })
  const actions = controlActions(parts, leaving)
  await serveMetrics(settings, { actions, log, metrics }, releases)
  const where = { stateDir, mountpoint: settings.mountpoint, ...mountedAs(settings) }
  // Commands know a drive by its mountpoint, as soon as that has it.
  await bridge.mount(() => openControl({ actions, bridge, log }, where, releases))
  uploader.start()
  deps.nowSignal.addEventListener('abort', () => {
    leaving.hurry()
  })
  if (deps.nowSignal.aborted) leaving.hurry()
  deps.onReady({
    status: () => actions.status(),
    leave: (options) => actions.leave(options),
    sync: (name) => drive.commands.sync(name),
  })
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

async function serveMetrics(
  { metrics: address }: MountSettings,
  deps: { readonly actions: ControlActions; readonly log: Logger; readonly metrics: Metrics },
  releases: Releases,
): Promise<void> {
  if (address === undefined) return
  const { actions, log, metrics } = deps
  const { contentType } = metrics
  const server = await MetricsServer.start(
    { text: () => actions.metrics(), contentType, log },
    address,
  )
  releases.add('metrics', () => server.close())
  log.info({ url: server.url }, 'The figures of this drive are served.')
}

/** The socket lies in the state directory, unless its path is too long for the kernel. */
async function openControl(
  deps: { readonly actions: ControlActions; readonly bridge: Bridge; readonly log: Logger },
  where: Omit<RunningDrive, 'socketPath' | 'pid'> & { readonly stateDir: string },
  releases: Releases,
): Promise<void> {
  const runtimeDir = findRuntimeDir()
  const inState = join(where.stateDir, 'control.sock')
  const inRuntime = join(runtimeDir, `${process.pid}.sock`)
  const socketPath = inState.length <= LONGEST_SOCKET_PATH ? inState : inRuntime
  const server = await ControlServer.start(deps, { socketPath })
  releases.add('control socket', () => server.close())
  const registry = new DriveRegistry(findRegistryDirs())
  const register = (mountpoint: string): Promise<void> =>
    registry.add({ ...where, mountpoint, socketPath, pid: process.pid })
  await register(where.mountpoint)
  deps.bridge.onMoved((mountpoint) => {
    deps.log.info({ mountpoint }, 'A directory above the drive was renamed.')
    register(mountpoint).catch((error: unknown) => {
      deps.log.warn({ error: String(error) }, 'Commands will not know where this drive is.')
    })
  })
  releases.add('registry', () =>
    registry
      .leaveOwn({ mountpoint: deps.bridge.mountpoint, pid: process.pid })
      .catch((error: unknown) => {
        deps.log.warn({ error: String(error) }, 'Commands will not know where this drive was.')
      }),
  )
}

function mountedAs({ profile, options }: MountSettings): Pick<RunningDrive, 'profile' | 'options'> {
  return {
    ...(profile === undefined ? {} : { profile }),
    ...(options === undefined ? {} : { options: [...options] }),
  }
}

function refuseStopped({ aborted }: AbortSignal): void {
  if (aborted) throw new DriveError('interrupted', 'Interrupted before mounting.')
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
