import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ClassicLevel } from 'classic-level'
import { DriveError, fromFileSystem, isDriveError } from '../domain/errors.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { ifThere } from '../disk/if-there.ts'
import { hasProcess, readProcessStat } from '../disk/process-stat.ts'
import { findLevelCode } from './level-error.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'
import { lacksRoom, releaseReserve } from './reserve.ts'

/** A held lock. */
export interface StateLock {
  release(): Promise<void>
}

/** A holder names itself right after it has the lock, and takes its name away right before it lets go. */
const TRIES = 20
const PAUSE_MS = 50
/** More than an empty database writes when it is opened. */
const LOCK_BYTES = 256 * 1024

/**
 * One process per state directory. The lock is the kernel's, on the file that an empty database in
 * `lock.db` keeps open (fcntl, F_SETLK). It goes with its process however that ends. So there is no
 * stale lock to judge and nothing to race for. The file `lock` beside it only tells people the
 * holder: pid and start time, since a pid may be used again.
 *
 * On a full disk the reserve of the directory is given away for it. Rejects `locked` with the holder's pid,
 * and `local-disk-full` when there was none: then no process holds it, nor can get it.
 */
export async function acquireLock(dir: string): Promise<StateLock> {
  try {
    return await take(dir)
  } catch (error) {
    if (!(await isForWantOfRoom(dir, error))) throw error
    await refuseLiveHolder(join(dir, 'lock'))
    if (releaseReserve(dir)) return take(dir)
    throw new DriveError('local-disk-full', `The local disk is full: ${dir} cannot be used.`, {
      cause: error,
      hint: 'Free some space on it; bagfs outbox save copies what waits elsewhere, bagfs outbox discard drops it.',
    })
  }
}

async function take(dir: string): Promise<StateLock> {
  const nameFile = join(dir, 'lock')
  try {
    await makePrivateDirectory(dir)
    const held = await hold(dir, nameFile)
    try {
      const name = `${process.pid} ${(await readProcessStat(process.pid))?.startTime ?? '-'}\n`
      await writeFileAtomic(nameFile, name, { durable: false })
    } catch (error) {
      await held.close()
      throw error
    }
    return { release: () => letGo(held, nameFile) }
  } catch (error) {
    throw fromFileSystem(error, `The state directory ${dir} cannot be locked`)
  }
}

/** The database does not tell why it cannot write. */
async function isForWantOfRoom(dir: string, error: unknown): Promise<boolean> {
  if (isDriveError(error, 'local-disk-full')) return true
  return isDriveError(error, 'local-io') && (await lacksRoom(dir, LOCK_BYTES))
}

async function letGo(held: ClassicLevel, nameFile: string): Promise<void> {
  if (held.status !== 'open') return
  await rm(nameFile, { force: true })
  await held.close()
}

async function hold(dir: string, nameFile: string): Promise<ClassicLevel> {
  const path = join(dir, 'lock.db')
  await makePrivateDirectory(path)
  for (let tries = 0; tries < TRIES; tries += 1) {
    const opened = await openOrSeeLocked(path)
    if (opened !== undefined) return opened
    await refuseLiveHolder(nameFile)
    await sleep(PAUSE_MS)
  }
  throw new DriveError(
    'locked',
    `Another process holds the state directory ${dir}, or its file system cannot lock files.`,
    { hint: 'Look for another bagfs, or choose a --state-dir on a local disk.' },
  )
}

/** Undefined when another process holds the lock. What a crash left of the database does not matter. */
async function openOrSeeLocked(path: string): Promise<ClassicLevel | undefined> {
  try {
    return await open(path)
  } catch (error) {
    if (findLevelCode(error) === 'LEVEL_LOCKED') return undefined
    await clear(path)
  }
  try {
    return await open(path)
  } catch (error) {
    if (findLevelCode(error) === 'LEVEL_LOCKED') return undefined
    throw error
  }
}

async function open(path: string): Promise<ClassicLevel> {
  const database = new ClassicLevel(path, { cacheSize: 0, writeBufferSize: 65_536 })
  await database.open()
  return database
}

/** The lock file itself stays: removing it could let two processes lock two files. */
async function clear(path: string): Promise<void> {
  for (const name of await readdir(path)) {
    if (name !== 'LOCK') await rm(join(path, name), { recursive: true, force: true })
  }
}

async function refuseLiveHolder(nameFile: string): Promise<void> {
  const [pid, started] = ((await ifThere(readFile(nameFile, 'utf8'))) ?? '').trim().split(' ')
  if (pid === undefined || !/^[1-9]\d*$/.test(pid)) return
  if (!(await isAlive(Number(pid), started))) return
  throw new DriveError('locked', `This account is in use already, by process ${pid}.`, {
    hint: 'Use that mount, unmount it first, or choose another --state-dir.',
  })
}

async function isAlive(pid: number, started: string | undefined): Promise<boolean> {
  const now = await readProcessStat(pid)
  if (now === undefined || started === undefined || started === '-') return hasProcess(pid)
  return now.startTime === started
}
