import { readFile } from 'node:fs/promises'
import { platform } from 'node:os'
import type { Clock } from '../domain/clock.ts'
import { systemErrorCode } from '../domain/errors.ts'

const PAUSE_MS = 20

/** Resolves with true when a process has ended, with false when it is still there after `longestMs`. */
export async function hasEnded(pid: number, longestMs: number, clock: Clock): Promise<boolean> {
  const startedAtMs = clock.now()
  while (await isRunning(pid)) {
    if (clock.now() - startedAtMs > longestMs) return false
    await clock.sleep(PAUSE_MS)
  }
  return true
}

/** One that has ended and whose parent has not noticed holds nothing any more (proc(5), state Z). */
async function isRunning(pid: number): Promise<boolean> {
  if (platform() !== 'linux') return isThere(pid)
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The second field is a name in parentheses that may hold anything.
    return !/^\) [ZX]/.test(stat.slice(stat.lastIndexOf(')')))
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'ENOENT' || code === 'ESRCH') return false
    throw error
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return systemErrorCode(error) === 'EPERM'
  }
}
