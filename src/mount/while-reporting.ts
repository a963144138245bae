import type { Clock } from '../domain/clock.ts'

/** How often a command is told how far something is, in ms. */
const PROGRESS_MS = 500

/**
 * Does `work`, and calls `report` when it begins and every half second until it ends: not at each change, since to count
 * what waits takes long where thousands do. Rejects as `work` and `report` do.
 */
export async function whileReporting<Result>(
  clock: Clock,
  report: () => void,
  work: () => Promise<Result>,
): Promise<Result> {
  const done = new AbortController()
  const working = work().finally(() => {
    done.abort()
  })
  const [result] = await Promise.all([working, reportUntil(done.signal, clock, report)])
  return result
}

async function reportUntil(done: AbortSignal, clock: Clock, report: () => void): Promise<void> {
  report()
  while (await hasPassed(clock, done)) report()
}

/** False when it is over before. */
function hasPassed(clock: Clock, over: AbortSignal): Promise<boolean> {
  return clock.sleep(PROGRESS_MS, over).then(
    () => true,
    () => false,
  )
}
