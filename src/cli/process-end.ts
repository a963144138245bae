import { platform } from 'node:os'
import type { Clock } from '../domain/clock.ts'
import { hasProcess, readProcessStat } from '../disk/process-stat.ts'

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

/** False also for one that has ended and that its parent has not noticed. */
export async function isRunning(pid: number): Promise<boolean> {
  if (platform() !== 'linux') return hasProcess(pid)
  return (await readProcessStat(pid))?.hasEnded === false
}
