import { lstat, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { askStatus } from '../control/client.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { whileFree } from '../disk/directory-lock.ts'
import { findMount } from '../disk/find-mount.ts'
import { listItems, type OutboxItem } from '../outbox/items.ts'
import { readOutbox } from '../outbox/read-outbox.ts'
import { isOwed } from '../control/status.ts'
import { mountAgain, type Mounted } from './mount-again.ts'
import { isRunning } from './process-end.ts'
import { describeItem, describeProfile, summariseOutbox } from '../mount/status-words.ts'
import { probePath } from '../mount/probe-path.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { DRIVE_TYPE } from '../kernel/refuse-mounted.ts'

/** What listens answers at once, or is let be. */
const LISTENS_MS = 1_000
const ANSWERS_MS = 1_500
/** What the kernel says of a mount whose process is gone. */
const CUT_OFF: readonly string[] = ['ENOTCONN', 'ECONNABORTED']

/** What a drive left whose process has ended. */
export interface DeadDrive {
  readonly mountpoint: string
  readonly profile?: string
  readonly options?: readonly string[]
  readonly stateDir?: string
  /** It ended by leaving. */
  readonly hasLeft: boolean
  /** The kernel has its mount still. */
  readonly isMounted: boolean
  /** Its process runs and its mount answers: only its state directory is not where it was. */
  readonly isUnreached: boolean
  readonly outbox: readonly OutboxItem[]
}

/** Those of dead drives that leave something to do. */
export async function findRemains(dead: readonly RunningDrive[]): Promise<readonly DeadDrive[]> {
  const all = await Promise.all(
    dead.map(async (drive): Promise<DeadDrive> => {
      const mount = await findMount(drive.mountpoint)
      const isMounted = mount?.type === DRIVE_TYPE
      if (isMounted && (await isUnreached(drive))) return unreached(drive)
      return { ...(await lookAt(drive)), isMounted, isUnreached: false, hasLeft: false }
    }),
  )
  return all.filter((drive) => drive.isMounted || isOwing(drive))
}

/**
 * True for a drive that commands do not reach although its process runs and its mount answers: its state directory, with
 * its socket, was moved.
 */
export async function isUnreached({ mountpoint, pid }: RunningDrive): Promise<boolean> {
  // The mount of a process that has ended is not touched: that is slower to find out.
  if (!(await isRunning(pid))) return false
  if ((await findMount(mountpoint))?.type !== DRIVE_TYPE) return false
  const probe = await probePath(mountpoint, ANSWERS_MS)
  // An error of the drive itself, or no answer in time, is of one that runs, too.
  return probe.is !== 'error' || !CUT_OFF.includes(probe.code)
}

/** What is where its state directory was is not of it. */
function unreached(drive: RunningDrive): DeadDrive {
  return { ...drive, outbox: [], isMounted: true, isUnreached: true, hasLeft: false }
}

/** The drives that left a mountpoint before all was stored, wherever their state directories are. */
export async function findOwing(mountpoint: string): Promise<readonly DeadDrive[]> {
  const former = await new DriveRegistry(findRegistryDirs()).listFormer(mountpoint)
  const all = await Promise.all(
    former.map(async (drive) => ({
      ...(await lookAt(drive)),
      ...{ isMounted: false, isUnreached: false, hasLeft: true },
    })),
  )
  return all.filter(isOwing)
}

/**
 * Takes the socket of a dead drive away, and with `record` also what is known of it as one that runs. False, with
 * nothing done, unless it was this user's, its process has ended, no other one holds its state directory, and nothing
 * listens.
 */
export async function clearDead(
  drive: RunningDrive,
  { record }: { readonly record: boolean },
): Promise<boolean> {
  const { stateDir, socketPath, pid } = drive
  if (stateDir === undefined || (await isRunning(pid))) return false
  // Of what is cleared already the lock is not taken: a drive may be just starting there.
  if (!record && !(await isSocket(socketPath))) return true
  // What root makes to see whether it is locked would keep its user out.
  if (!(await isOwn(stateDir))) return false
  try {
    return await whileFree(stateDir, async () => {
      if ((await isSocket(socketPath)) && (await askStatus(socketPath, LISTENS_MS)) === undefined) {
        await rm(socketPath, { force: true })
      }
      if (record) await new DriveRegistry(findRegistryDirs()).leaveOwn(drive)
    })
  } catch {
    // It is tidying: where that cannot be, what the command is about matters more.
    return false
  }
}

async function isOwn(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.uid === process.getuid?.()
}

async function isSocket(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isSocket() === true
}

async function lookAt({ mountpoint, stateDir, profile, options }: Mounted) {
  const known = {
    mountpoint,
    ...(profile === undefined ? {} : { profile }),
    ...(options === undefined ? {} : { options }),
  }
  if (stateDir === undefined) return { ...known, outbox: [] }
  const { intents } = await readOutbox(join(stateDir, 'outbox'))
  return { ...known, stateDir, outbox: listItems(intents) }
}

/** True when the service lacks something of it. */
export function isOwing({ outbox }: DeadDrive): boolean {
  return outbox.some(isOwed)
}

/** As `bagfs status` tells of a drive that answers. */
export function describeDead(drive: DeadDrive, nowMs: number): string {
  const { mountpoint, outbox, hasLeft } = drive
  if (drive.isUnreached) return describeUnreached(drive)
  const aim = isOwing(drive) ? '  (sends what waits)' : ''
  return [
    `Drive:    ${mountpoint} (${hasLeft ? 'not mounted' : 'its process ended without leaving'})`,
    ...describeProfile(drive.profile),
    `Outbox:   ${summariseOutbox(outbox)}`,
    ...outbox.map((item) => `  ${describeItem(item, nowMs)}`),
    `To do:    ${mountAgain(drive)}${aim}`,
  ].join('\n')
}

function describeUnreached(drive: DeadDrive): string {
  return [
    `Drive:    ${drive.mountpoint} (runs, and its state directory is not where it was)`,
    ...describeProfile(drive.profile),
    'Outbox:   not known: what waits is in that directory.',
    `To do:    ${putBack(drive)}`,
  ].join('\n')
}

/** For a drive that is unreached. */
export function putBack({ stateDir = 'its state directory' }: Mounted): string {
  return `put ${shellQuote(stateDir)} back where it was: then commands reach the drive`
}
