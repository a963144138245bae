import { access, constants } from 'node:fs/promises'
import { dirname } from 'node:path'
import { withDefault, type MountFlags } from '../../config/options.ts'
import { formatSize } from '../../config/sizes.ts'
import { freeBytesOf } from '../../content/cache-space.ts'
import { isThere } from '../../disk/if-there.ts'
import { refuseOpenPath } from '../../disk/open-path.ts'
import { DriveError, fromFileSystem, systemErrorCode } from '../../domain/errors.ts'
import { freeFilesOf, RESERVE_BYTES, RESERVE_FILES } from '../../state/reserve.ts'
import { stateDirOf } from '../drive-dirs.ts'
import { runCheck, type Check, type Finding } from './check.ts'

/** Whose the state directory is, and what room its disk has. */
export async function checkStateDirectory(options: MountFlags): Promise<readonly Check[]> {
  const path = stateDirOf(options)
  return Promise.all([
    runCheck('state directory', async () => {
      await refuseOpenPath(path)
      await requireWritable(path)
      return path
    }),
    runCheck('local disk', async () => {
      const disk = await nearest(path)
      const free = { bytes: await freeBytesOf(disk), files: freeFilesOf(disk) }
      return judgeRoom(path, free, withDefault(options, 'minFree'))
    }),
  ])
}

async function requireWritable(path: string): Promise<void> {
  const existing = await nearest(path)
  try {
    await access(existing, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new DriveError(
      'not-permitted',
      `${existing} cannot be written (${systemErrorCode(error) ?? 'no reason given'}).`,
      { cause: error, hint: `Choose another one: --state-dir DIR, or BAGFS_STATE_DIR.` },
    )
  }
}

/** The directory itself, or the one above it in which a mount would make it. */
async function nearest(path: string): Promise<string> {
  try {
    return (await isThere(path)) || path === dirname(path) ? path : await nearest(dirname(path))
  } catch (error) {
    throw fromFileSystem(error, `Looking at ${path}`)
  }
}

/** What can still be put on a disk. */
interface FreeRoom {
  readonly bytes: number
  readonly files: number
}

/** Exported for its test. */
export function judgeRoom(path: string, room: FreeRoom, minFreeBytes: number): Finding {
  const free = `${formatSize(room.bytes)} are free`
  const mend = `Free some space on the disk of ${path}, or keep bagfs elsewhere: --state-dir DIR`
  if (room.bytes < RESERVE_BYTES) {
    return { state: 'failure', says: `${free}: nothing can be written.`, mend }
  }
  if (room.files < RESERVE_FILES) {
    const says = `${free}, for ${room.files} files more: nothing can be written.`
    return { state: 'failure', says, mend: mend.replace('Free some space', 'Remove some files') }
  }
  if (room.bytes > minFreeBytes) return free
  return {
    state: 'warning',
    says: `${free}, and the cache leaves ${formatSize(minFreeBytes)}: it keeps nothing.`,
    mend: `${mend}, or let the cache have more: --min-free SIZE`,
  }
}
