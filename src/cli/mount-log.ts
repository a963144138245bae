import { createHash } from 'node:crypto'
import { mkdir, open, rename, stat } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { fromFileSystem, systemErrorCode } from '../domain/errors.ts'

/** A log that has grown beyond this is put aside at the next mount; one older log is kept. */
const LONGEST_LOG_BYTES = 10e6

export interface MountLog {
  readonly path: string
  /** Open for appending, 0600. */
  readonly file: FileHandle
}

/** Opens the log of a background mount: one file for each mountpoint. Rejects `local-io`. */
export async function openMountLog(stateDir: string, mountpoint: string): Promise<MountLog> {
  const directory = join(stateDir, 'logs')
  const path = join(directory, logName(mountpoint))
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await putAsideWhenLong(path)
    return { path, file: await open(path, 'a', 0o600) }
  } catch (error) {
    throw fromFileSystem(error, `Opening the log ${path}`)
  }
}

/** Readable, and different for different mountpoints: `home-me-drive-1a2b3c4d.log`. */
function logName(mountpoint: string): string {
  const readable = mountpoint.replace(/[^\w.]+/g, '-').replace(/^-/, '')
  const sum = createHash('sha256').update(mountpoint).digest('hex')
  return `${readable.slice(-100)}-${sum.slice(0, 8)}.log`
}

async function putAsideWhenLong(path: string): Promise<void> {
  try {
    if ((await stat(path)).size > LONGEST_LOG_BYTES) await rename(path, `${path}.old`)
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT') throw error
  }
}
