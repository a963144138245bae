import type { Command } from '@commander-js/extra-typings'
import { findRuntimeDir } from '../config/runtime-dir.ts'
import { askToLeave } from '../control/client.ts'
import { DriveRegistry } from '../control/registry.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import { unmountPath } from '../kernel/unmount.ts'
import type { CommandContext } from './context.ts'
import { absoluteMountpoint } from './drive-places.ts'
import { createLeavingLine } from './leaving-line.ts'
import { findMount } from './find-mount.ts'
import type { Output } from './output.ts'
import { hasEnded } from './process-end.ts'

/** More than the process of a drive takes when something in it does not end (releases.ts, main.ts). */
const LONGEST_END_MS = 25_000

/** Adds `bagfs umount`. */
export function addUmount(program: Command, { output }: CommandContext): void {
  program
    .command('umount')
    .description('unmount a drive; waits until the service has everything')
    .argument('<mountpoint>', 'where the drive is mounted')
    .option('--now', 'do not wait: what is not sent yet is kept for the next mount')
    .action(async (path, { now = false }) => {
      await umount(output, await absoluteMountpoint(path), now)
    })
}

async function umount(output: Output, mountpoint: string, now: boolean): Promise<void> {
  const registry = new DriveRegistry(findRuntimeDir())
  const drive = await registry.find(mountpoint)
  const line = createLeavingLine(output)
  const waiting =
    drive === undefined
      ? undefined
      : await askToLeave(drive.socketPath, { now, onProgress: line.show }).finally(line.end)
  if (drive !== undefined && waiting !== undefined) {
    if (waiting > 0) output.note(keptNote(waiting))
    await waitForEnd(output, drive.pid)
    return
  }
  await unmountOrphan(mountpoint, now)
  await registry.remove(mountpoint)
}

/** Until then the process holds its state directory: a mount right after this command would be refused. */
async function waitForEnd(output: Output, pid: number): Promise<void> {
  if (await hasEnded(pid, LONGEST_END_MS, systemClock)) return
  output.note(`bagfs: warning: the drive has left, but its process ${pid} does not end.`)
}

/** A mount whose process is gone: nothing to wait for, the outbox is on disk. */
async function unmountOrphan(mountpoint: string, now: boolean): Promise<void> {
  const mount = await findMount(mountpoint)
  if (mount?.type !== 'fuse.bagfs') {
    throw new DriveError('usage', `${mountpoint} has no bagfs drive on it.`)
  }
  await unmountPath(mountpoint, { lazy: now })
}

function keptNote(waiting: number): string {
  const changes = waiting === 1 ? '1 change is' : `${waiting} changes are`
  return `${changes} not at the service yet: kept in the outbox. The next mount goes on; bagfs outbox tells what waits for you.`
}
