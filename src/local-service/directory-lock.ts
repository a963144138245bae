import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { z } from 'zod'
import { DriveError, systemErrorCode } from '../domain/errors.ts'
import { onDisk, PRIVATE_FILE } from './durable-files.ts'

/**
 * A process that looked at a stale lock before us may still move it aside, and would then move
 * ours. So a lock counts only when it is still there after this time.
 */
const RECHECK_AFTER_MS = 50

/**
 * The process that holds a directory. `started` tells a process from a later one with the same pid.
 */
const holderSchema = z.object({ pid: z.number().int().positive(), started: z.string() })

export interface DirectoryLock {
  release(): Promise<void>
}

/**
 * Takes `directory` for this process; the file `lock` in it names the holder. The lock of a process
 * that has ended is taken over. Throws `locked`, with the pid of the holder, otherwise.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const path = join(directory, 'lock')
  const started = (await startOf(process.pid)) ?? ''
  const mine = JSON.stringify({ pid: process.pid, started, key: randomUUID() })
  await onDisk(`Cannot lock ${directory}`, take(path, mine))
  return {
    release: async () => {
      if ((await readIfThere(path)) === mine) await rm(path, { force: true })
    },
  }
}

async function take(path: string, mine: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`
  await writeFile(draft, mine, { mode: PRIVATE_FILE, flag: 'wx' })
  try {
    // The hard link makes the lock appear with its text in it, or fails because there is one.
    do {
      while (!(await linkIfFree(draft, path))) await removeIfStale(path)
      await setTimeout(RECHECK_AFTER_MS)
    } while ((await readIfThere(path)) !== mine)
  } finally {
    await rm(draft, { force: true })
  }
}

async function linkIfFree(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path)
    return true
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return false
    throw error
  }
}

async function removeIfStale(path: string): Promise<void> {
  const found = await readIfThere(path)
  if (found === undefined) return
  await refuseIfAlive(path, found)
  const aside = `${path}.${randomUUID()}`
  await rename(path, aside).catch(ignoreMissing)
  const moved = await readIfThere(aside)
  // Another process may have taken the stale lock over between our look and our rename.
  if (moved !== undefined && moved !== found) await linkIfFree(aside, path)
  await rm(aside, { force: true })
}

async function refuseIfAlive(path: string, text: string): Promise<void> {
  const holder = parseHolder(text)
  if (holder === undefined) return
  const started = await startOf(holder.pid)
  if (started === undefined || started !== holder.started) return
  throw new DriveError(
    'locked',
    `The data directory is in use by process ${holder.pid} (lock file ${path}).`,
    { hint: 'Stop that process, or use another data directory.' },
  )
}

function parseHolder(text: string): z.infer<typeof holderSchema> | undefined {
  try {
    return holderSchema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined // cut by a crash of the machine: no process holds it
  }
}

/** Boot and start time of a running process, '' where /proc does not tell, undefined when it has ended. */
async function startOf(pid: number): Promise<string | undefined> {
  const boot = await readIfThere('/proc/sys/kernel/random/boot_id')
  if (boot === undefined) return isRunning(pid) ? '' : undefined
  const stat = await readIfThere(`/proc/${pid}/stat`)
  // proc(5): the name in parentheses may hold anything; state is field 3, starttime field 22.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (fields === undefined || fields[0] === 'Z' || fields[0] === 'X') return undefined
  return `${boot.trim()}/${fields[19] ?? ''}`
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return systemErrorCode(error) === 'EPERM'
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(ignoreMissing)
}

function ignoreMissing(error: unknown): undefined {
  const code = systemErrorCode(error)
  // ESRCH: the process ended while its /proc file was read.
  if (code !== 'ENOENT' && code !== 'ESRCH') throw error
}
