import { randomUUID } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { z } from 'zod'
import { ifThere } from '../disk/if-there.ts'
import { linkIfFree } from '../disk/link-if-free.ts'
import { hasProcess, readProcFile, readProcessStat } from '../disk/process-stat.ts'
import { DriveError } from '../domain/errors.ts'
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

async function removeIfStale(path: string): Promise<void> {
  const found = await readIfThere(path)
  if (found === undefined) return
  await refuseIfAlive(path, found)
  const aside = `${path}.${randomUUID()}`
  await ifThere(rename(path, aside))
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
  const boot = await readProcFile('sys/kernel/random/boot_id')
  if (boot === undefined) return hasProcess(pid) ? '' : undefined
  const stat = await readProcessStat(pid)
  return stat?.hasEnded === false ? `${boot.trim()}/${stat.startTime}` : undefined
}

async function readIfThere(path: string): Promise<string | undefined> {
  return ifThere(readFile(path, 'utf8'))
}
