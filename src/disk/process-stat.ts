import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { systemErrorCode } from '../domain/errors.ts'

/** What the kernel tells of a process (proc(5)). */
export interface ProcessStat {
  /** It has ended, and its parent has not noticed: it holds nothing any more. */
  readonly hasEnded: boolean
  /** A signal or a debugger holds it. */
  readonly isStopped: boolean
  /** In ticks since the machine was started. */
  readonly startTime: string
}

/** Undefined for a process that is gone, and where there is no /proc. */
export async function readProcessStat(pid: number): Promise<ProcessStat | undefined> {
  const stat = await readProcFile(`${pid}/stat`)
  // The second field is a name in parentheses that may hold anything: behind it are the third and the others.
  const [state = '', ...others] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? []
  if (stat === undefined) return undefined
  return {
    hasEnded: state === 'Z' || state === 'X',
    isStopped: state === 'T' || state === 't',
    startTime: others[18] ?? '',
  }
}

/** A file of /proc, undefined when it is not there; ESRCH is of a process that ends meanwhile. */
export async function readProcFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(`/proc/${path}`, 'utf8')
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}

/**
 * The same at once, for a program that waits meanwhile. Undefined as well where it is not ours to read. Only for files
 * that no lock of that program can hold up, such as `status` and `comm`; `cmdline` is none.
 */
export function readProcFileNow(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, 'utf8')
  } catch {
    return undefined
  }
}

/** True for a process that signals reach, or that belongs to another user. */
export function hasProcess(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return systemErrorCode(error) === 'EPERM'
  }
}
