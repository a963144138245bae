/** Milliseconds. */
interface Backoff {
  readonly firstMs: number
  readonly longestMs: number
}

/** From here on every wait is the longest. */
const MOST_DOUBLINGS = 30

/** The wait after a failure, in milliseconds: twice as long for each of the failures in a row that were before it. */
export function backoffMs(before: number, { firstMs, longestMs }: Backoff): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(before, MOST_DOUBLINGS))
}
