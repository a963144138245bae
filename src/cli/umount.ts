import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { askToLeave } from '../control/client.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { unmountHung, unmountPath } from '../kernel/unmount.ts'
import { listItems } from '../outbox/items.ts'
import { readOutbox } from '../outbox/read-outbox.ts'
import type { CommandContext } from './context.ts'
import { clearDead, isUnreached, putBack } from './dead-drives.ts'
import { findNamed, type NamedDrive } from './drive-names.ts'
import { insideDrive } from './drive-places.ts'
import { createLeavingLine, describeLeaving, describeWaiting } from './leaving-line.ts'
import { mountAgain } from './mount-again.ts'
import { findMount } from '../disk/find-mount.ts'
import type { Mount } from '../disk/mountinfo.ts'
import type { Output } from './output.ts'
import { hasEnded } from './process-end.ts'
import { isOwed } from '../control/status.ts'

/** More than the process of a drive takes when something in it does not end (releases.ts, main.ts). */
const LONGEST_END_MS = 25_000
/** More than a process takes that has been killed already. */
const SHORT_END_MS = 1_000

/** Adds `bagfs umount`. */
export function addUmount(program: Command, { output }: CommandContext): void {
  program
    .command('umount')
    .description(
      'unmount a drive; waits until the service has everything, and fails (1) when it does not take all',
    )
    .argument('<mountpoint>', 'where the drive is mounted, or its PROFILE')
    .option('--now', 'do not wait: what is not sent yet is kept for the next mount')
    .action(async (word, { now = false }) => {
      await umount(output, await findNamed(word), now)
    })
}

async function umount(
  output: Output,
  { mountpoint, called }: NamedDrive,
  now: boolean,
): Promise<void> {
  const drive = await new DriveRegistry(findRegistryDirs()).find(mountpoint)
  const answer = drive === undefined ? 'dead' : await leave(output, drive, now)
  if (drive !== undefined && typeof answer === 'object') {
    // With --now, kept changes are no failure.
    if (answer.kept > 0) tellKept(output, keptNote(answer.kept, drive, called), { isFailure: !now })
    await waitForEnd(output, drive.pid)
    return
  }
  const isMounted = await unmountDead(
    mountpoint,
    now && drive !== undefined ? unmountHung : (path) => unmountPath(path, { lazy: now }),
  )
  await forget(mountpoint, drive)
  if (!isMounted && answer === 'dead') throw await noDriveOn(mountpoint)
  const kept = await countKept(drive?.stateDir)
  if (kept > 0 && drive !== undefined) {
    tellKept(output, endedNote(kept, drive), { isFailure: true })
  }
}

/** It could neither be asked what waits, nor be waited for. */
async function refuseUnreached(drive: RunningDrive): Promise<void> {
  if (!(await isUnreached(drive))) return
  throw new DriveError(
    'usage',
    `The drive at ${drive.mountpoint} runs, and its state directory is not where it was.`,
    {
      hint: `To do: ${putBack(drive)}. bagfs umount --now ${shellQuote(drive.mountpoint)} unmounts it all the same; what waits stays in that directory.`,
    },
  )
}

async function forget(mountpoint: string, drive: RunningDrive | undefined): Promise<void> {
  await new DriveRegistry(findRegistryDirs()).leave(mountpoint)
  if (drive !== undefined) await clearDead(drive, { record: false })
}

async function noDriveOn(mountpoint: string): Promise<DriveError> {
  const none = new DriveError('usage', `${mountpoint} has no bagfs drive on it.`, {
    hint: 'bagfs status lists the drives.',
  })
  return (await insideDrive(mountpoint)) ?? none
}

async function leave(output: Output, drive: RunningDrive, now: boolean) {
  const line = createLeavingLine(output, now ? describeWaiting : describeLeaving)
  try {
    const answer = await askToLeave(drive.socketPath, { now, onProgress: line.show })
    if (answer === 'dead' && !now) await refuseUnreached(drive)
    return answer
  } catch (error) {
    return await detachHung(drive, now, error)
  } finally {
    line.end()
  }
}

/** With --now, programs are let go of a drive whose process hangs, too. Rejects with what to do next. */
async function detachHung(
  { mountpoint, pid }: RunningDrive,
  now: boolean,
  error: unknown,
): Promise<'ended'> {
  if (!now || !isDriveError(error, 'timed-out')) throw error
  await unmountDead(mountpoint, unmountHung)
  // A drive that was killed, and that the kernel did not let go, has ended by now.
  if (await hasEnded(pid, SHORT_END_MS, systemClock)) return 'ended'
  throw new DriveError(
    'timed-out',
    `${mountpoint} is unmounted, but its process does not answer.`,
    {
      cause: error,
      hint: `End it: kill -9 ${pid}. What is not sent is kept for the next mount.`,
    },
  )
}

function tellKept(output: Output, note: string, { isFailure }: { isFailure: boolean }): void {
  output.note(note)
  if (isFailure) process.exitCode = 1
}

/** Until then the process holds its state directory: a mount right after this command would be refused. */
async function waitForEnd(output: Output, pid: number): Promise<void> {
  if (await hasEnded(pid, LONGEST_END_MS, systemClock)) return
  output.warn(`the drive has left, but its process ${pid} does not end.`)
}

/** Takes a mount away whose process is gone; false when there is none. The outbox is on disk. */
async function unmountDead(
  mountpoint: string,
  unmount: (mountpoint: string) => Promise<void>,
): Promise<boolean> {
  const mount = await findMount(mountpoint)
  if (mount?.type !== 'fuse.bagfs') return false
  if (!isOurs(mount)) {
    throw new DriveError('forbidden', `The drive at ${mountpoint} belongs to another user.`, {
      hint: 'That user or root can unmount it.',
    })
  }
  await unmount(mountpoint)
  return true
}

/** True when this user may unmount it. */
function isOurs({ uid }: Mount): boolean {
  const me = process.getuid?.() ?? 0
  return me === 0 || uid === undefined || uid === me
}

/** Changes in the outbox of a drive that ended; of one that nothing is known of, none. */
async function countKept(stateDir: string | undefined): Promise<number> {
  if (stateDir === undefined) return 0
  const { intents } = await readOutbox(join(stateDir, 'outbox'))
  return listItems(intents).filter(isOwed).length
}

function keptNote(kept: number, drive: RunningDrive, called: string): string {
  const changes = kept === 1 ? '1 change is' : `${kept} changes are`
  return `${changes} not at the service yet: kept in the outbox. The next mount goes on: ${mountAgain(drive)}\n  What waits for you: bagfs outbox ${shellQuote(called)}`
}

function endedNote(kept: number, drive: RunningDrive): string {
  const changes = kept === 1 ? '1 change is' : `${kept} changes are`
  return `The drive ended; ${changes} kept, the next mount sends ${kept === 1 ? 'it' : 'them'}: ${mountAgain(drive)}`
}
