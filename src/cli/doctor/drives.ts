import { findRegistryDirs } from '../../config/registry-dirs.ts'
import type { DriveStatus } from '../../control/protocol.ts'
import { DriveRegistry, type RunningDrive } from '../../control/registry.ts'
import { shellQuote } from '../../domain/shell-quote.ts'
import { listMounts } from '../../disk/find-mount.ts'
import { ifThere } from '../../disk/if-there.ts'
import { DRIVE_TYPE } from '../../kernel/refuse-mounted.ts'
import { clearDead, findRemains, isOwing, putBack } from '../dead-drives.ts'
import { findDrives } from '../drive-places.ts'
import { mountAgain } from '../mount-again.ts'
import { probePath } from '../../mount/probe-path.ts'
import { runCheck, type Check, type Finding } from './check.ts'

const PROBE_TIMEOUT_MS = 5_000

export interface DriveChecks {
  readonly checks: readonly Check[]
  /** Of drives that answer. */
  readonly statuses: readonly DriveStatus[]
}

/** The drives of this user: those that run, and what is left of those that were killed. */
export async function checkDrives(): Promise<DriveChecks> {
  const registry = new DriveRegistry(findRegistryDirs())
  const known = await registry.list()
  const statuses: DriveStatus[] = []
  const ofKnown = known.map((drive) =>
    checkDrive(drive.mountpoint, async () => {
      const { live, dead } = await findDrives(drive.mountpoint)
      statuses.push(...live.map(({ status }) => status))
      const [gone] = dead
      return gone === undefined ? 'it answers' : describeGone(registry, gone)
    }),
  )
  const strays = await strayMounts(known)
  const ofStrays = strays.map((mountpoint) =>
    checkDrive(mountpoint, () => describeStray(mountpoint)),
  )
  const checks = await Promise.all([...ofKnown, ...ofStrays])
  const nothing: Check = { name: 'drive', state: 'ok', says: 'none is mounted' }
  return { checks: checks.length === 0 ? [nothing] : checks, statuses }
}

async function checkDrive(mountpoint: string, look: () => Promise<Finding>): Promise<Check> {
  const check = await runCheck('drive', look)
  return { ...check, says: `${mountpoint}: ${check.says}` }
}

async function describeGone(registry: DriveRegistry, drive: RunningDrive): Promise<Finding> {
  const { mountpoint } = drive
  const [remains] = await findRemains([drive])
  const isCleared = await clearDead(drive, { record: remains === undefined })
  if (remains === undefined) {
    if (isCleared)
      return 'its process was killed; nothing of it waits, and its socket is taken away'
    return {
      state: 'warning',
      says: 'its process was killed and has left its socket; nothing of it waits.',
      mend: `rm -f ${[...registry.pathsOf(mountpoint), drive.socketPath].map(shellQuote).join(' ')}`,
    }
  }
  if (remains.isUnreached) {
    const says = 'it runs, and its state directory is not where it was.'
    return { state: 'failure', says, mend: putBack(drive) }
  }
  const waits = isOwing(remains) ? ', and changes wait in it' : ''
  return {
    state: 'failure',
    says: `its process ended without leaving${waits}.`,
    mend: remains.isMounted
      ? `bagfs umount ${shellQuote(mountpoint)}, then ${mountAgain(drive)}`
      : mountAgain(drive),
  }
}

/** Mounts of this user that no running or killed drive is known for. */
async function strayMounts(known: readonly RunningDrive[]): Promise<readonly string[]> {
  const places = new Set(known.map(({ mountpoint }) => mountpoint))
  const me = process.getuid?.() ?? 0
  return ((await ifThere(listMounts())) ?? [])
    .filter(
      ({ type, uid, mountpoint }) => type === DRIVE_TYPE && uid === me && !places.has(mountpoint),
    )
    .map(({ mountpoint }) => mountpoint)
}

async function describeStray(mountpoint: string): Promise<Finding> {
  const probe = await probePath(mountpoint, PROBE_TIMEOUT_MS)
  if (probe.is === 'directory')
    return 'it works; it was mounted with another HOME or XDG_STATE_HOME'
  return {
    state: 'failure',
    says:
      probe.is === 'silent'
        ? 'the mount does not answer.'
        : 'a dead mount: the process that answered for it is gone.',
    mend: `bagfs umount --now ${shellQuote(mountpoint)}`,
  }
}
