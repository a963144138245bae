import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, rename } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'

/** Of the logs in a state directory. */
export const LOG_DIRECTORY = 'logs'
/** A log that has grown beyond this is put aside at the next mount; one older log is kept. */
const LONGEST_LOG_BYTES = 10e6

/** As `a`, but never through a link that has the name. */
const APPEND = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW

export interface MountLog {
  readonly path: string
  /** Open for appending, 0600. */
  readonly file: FileHandle
}

/** Opens the log of a background mount: one file for each mountpoint. Rejects `local-io`, and `usage` where others could put a log. */
export async function openMountLog(stateDir: string, mountpoint: string): Promise<MountLog> {
  const path = mountLogPath(stateDir, mountpoint)
  try {
    await makePrivateDirectory(dirname(path))
    await putAsideWhenLong(path)
    return { path, file: await open(path, APPEND, 0o600) }
  } catch (error) {
    throw fromFileSystem(error, `Opening the log ${path}`)
  }
}

/** Where the drive of a mountpoint logs to when it runs in the background. */
export function mountLogPath(stateDir: string, mountpoint: string): string {
  return join(stateDir, LOG_DIRECTORY, logName(mountpoint))
}

/** Readable, and different for different mountpoints: `home-me-drive-1a2b3c4d.log`. */
function logName(mountpoint: string): string {
  const readable = mountpoint.replace(/[^\w.]+/g, '-').replace(/^-/, '')
  const sum = createHash('sha256').update(mountpoint).digest('hex')
  return `${readable.slice(-100)}-${sum.slice(0, 8)}.log`
}

async function putAsideWhenLong(path: string): Promise<void> {
  try {
    if ((await lstat(path)).size > LONGEST_LOG_BYTES) await rename(path, `${path}.old`)
  } catch (error) {
    if (!isAbsent(error)) throw error
  }
}
