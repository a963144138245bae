import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ClassicLevel } from 'classic-level'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { writeFileAtomic } from './atomic-file.ts'
import { ifThere, isThere } from './if-there.ts'
import { findLevelCode } from './level-error.ts'
import type { PathName } from './open-path.ts'
import { makePrivateDirectory } from './private-dir.ts'
import { hasProcess, readProcessStat } from './process-stat.ts'

/** A held lock. */
export interface DirectoryLock {
  release(): Promise<void>
}

/** What a person is told of a directory that another process holds. */
export interface LockWords {
  /** What the directory is, as in `state directory`. */
  readonly what: string
  readonly pathName: PathName
  /** What is in use, as in `This account`. */
  readonly subject: string
  readonly hint: string
}

/** A holder names itself right after it has the lock, and takes its name away right before it lets go. */
const TRIES = 20
const PAUSE_MS = 50

/**
 * One process per directory. The lock is the kernel's, on the file that an empty database in `lock.db` keeps open
 * (fcntl, F_SETLK). It goes with its process however that ends. So there is no stale lock to judge and nothing to
 * race for. The file `lock` beside it only tells people the holder: pid and start time, since a pid may be used
 * again. Rejects `locked` with the holder's pid.
 */
export async function lockDirectory(dir: string, words: LockWords): Promise<DirectoryLock> {
  const nameFile = join(dir, 'lock')
  try {
    await makePrivateDirectory(dir, words.pathName)
    const held = await hold(dir, words)
    try {
      const name = `${process.pid} ${(await readProcessStat(process.pid))?.startTime ?? '-'}\n`
      await writeFileAtomic(nameFile, name, { durable: false })
    } catch (error) {
      await held.close()
      throw error
    }
    return { release: () => letGo(held, nameFile) }
  } catch (error) {
    throw fromFileSystem(error, `The ${words.what} ${dir} cannot be locked`)
  }
}

/**
 * Does something while no process holds a directory; resolves with false, and nothing done, where one does. It names no
 * holder, so a process that wants the directory meanwhile waits for it and is not refused.
 */
export async function whileFree(dir: string, task: () => Promise<void>): Promise<boolean> {
  const path = join(dir, 'lock.db')
  if (!(await isThere(path))) return false
  const held = await openOrSeeLocked(path)
  if (held === undefined) return false
  try {
    await task()
  } finally {
    await held.close()
  }
  return true
}

async function letGo(held: ClassicLevel, nameFile: string): Promise<void> {
  if (held.status !== 'open') return
  await rm(nameFile, { force: true })
  await held.close()
}

async function hold(dir: string, words: LockWords): Promise<ClassicLevel> {
  const path = join(dir, 'lock.db')
  await makePrivateDirectory(path, words.pathName)
  for (let tries = 0; tries < TRIES; tries += 1) {
    const opened = await openOrSeeLocked(path)
    if (opened !== undefined) return opened
    await refuseLiveHolder(dir, words)
    await sleep(PAUSE_MS)
  }
  throw new DriveError(
    'locked',
    `Another process holds the ${words.what} ${dir}, or its file system cannot lock files.`,
    { hint: words.hint },
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

/** Throws `locked`, with the pid, where the holder has named itself and is alive. */
export async function refuseLiveHolder(dir: string, words: LockWords): Promise<void> {
  const name = await ifThere(readFile(join(dir, 'lock'), 'utf8'))
  const [pid, started] = (name ?? '').trim().split(' ')
  if (pid === undefined || !/^[1-9]\d*$/.test(pid)) return
  if (!(await isAlive(Number(pid), started))) return
  throw new DriveError('locked', `${words.subject} is in use already, by process ${pid}.`, {
    hint: words.hint,
  })
}

async function isAlive(pid: number, started: string | undefined): Promise<boolean> {
  const now = await readProcessStat(pid)
  if (now === undefined || started === undefined || started === '-') return hasProcess(pid)
  return now.startTime === started && !now.hasEnded
}
