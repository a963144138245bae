import { DriveError, isDriveError } from '../domain/errors.ts'
import {
  lockDirectory,
  refuseLiveHolder,
  type DirectoryLock,
  type LockWords,
} from '../disk/directory-lock.ts'
import { lacksRoom, releaseReserve } from './reserve.ts'

/** More than an empty database writes when it is opened. */
const LOCK_BYTES = 256 * 1024

const WORDS: LockWords = {
  what: 'state directory',
  pathName: '--state-dir',
  subject: 'This account',
  hint: 'Use that mount, unmount it first, or choose another --state-dir, on a local disk.',
}

/**
 * One process per state directory, see `lockDirectory`. On a full disk the reserve of the directory is given away
 * for it. Rejects `locked` with the holder's pid, and `local-disk-full` when there was none: then no process holds
 * it, nor can get it.
 */
export async function acquireLock(dir: string): Promise<DirectoryLock> {
  try {
    return await lockDirectory(dir, WORDS)
  } catch (error) {
    if (!(await isForWantOfRoom(dir, error))) throw error
    await refuseLiveHolder(dir, WORDS)
    if (releaseReserve(dir)) return acquireLock(dir)
    throw new DriveError('local-disk-full', `The local disk is full: ${dir} cannot be used.`, {
      cause: error,
      hint: 'Free some space on it; bagfs outbox save copies what waits elsewhere, bagfs outbox discard drops it.',
    })
  }
}

/** The database does not tell why it cannot write. */
async function isForWantOfRoom(dir: string, error: unknown): Promise<boolean> {
  if (isDriveError(error, 'local-disk-full')) return true
  return isDriveError(error, 'local-io') && (await lacksRoom(dir, LOCK_BYTES))
}
