import { stat } from 'node:fs'
import { systemClock } from '../domain/clock.ts'

const LOOK_MS = 2_000
/** A thread of the pool that is free looks at a path at once. */
const LONGEST_WAIT_MS = 5_000

const warningOf = (mountpoint: string): string =>
  'All threads of this process wait, maybe for the drive that it serves, which needs one of them itself. ' +
  'Make fewer calls on it at a time, or start this program with UV_THREADPOOL_SIZE=64. ' +
  `If it hangs for good, even a kill does not end it: sudo umount -f ${mountpoint}`

/** Warns once (`process.emitWarning`) when no thread of Node's pool is free for a while; does not keep the process alive. */
export function watchThreads(mountpoint: string): { stop(): void } {
  let askedAtMs: number | undefined
  let cancel: () => void
  const look = (): void => {
    const now = systemClock.now()
    if (askedAtMs !== undefined && now - askedAtMs >= LONGEST_WAIT_MS) {
      process.emitWarning(warningOf(mountpoint), { code: 'BAGFS_NO_THREADS' })
      return
    }
    if (askedAtMs === undefined) {
      askedAtMs = now
      stat('/', () => {
        askedAtMs = undefined
      })
    }
    cancel = systemClock.after(LOOK_MS, look)
  }
  cancel = systemClock.after(LOOK_MS, look)
  return {
    stop: () => {
      cancel()
    },
  }
}
