/**
 * What this program sees of an upload runs ahead of what the other side has. Kernels hold some
 * megabytes, and take more only when a good part of those has left. On a slow link both take time
 * that is no silence. These say how much, going by the pace so far.
 */

/** About a third of the largest send buffer that Linux gives a connection, rounded up. */
const REFILL_BYTES = 2 * 1024 * 1024
/** What the kernels of both sides may hold. */
const ON_THE_WAY_BYTES = 8 * 1024 * 1024

/** Milliseconds that may pass between two pieces taken, at the pace of `sentBytes` in `elapsedMs`. */
export function refillMs(elapsedMs: number, sentBytes: number, mostMs: number): number {
  if (sentBytes === 0) return 0
  return Math.min(mostMs, (Math.max(0, elapsedMs) * REFILL_BYTES) / sentBytes)
}

/** Milliseconds that the end of a body of `length` may need to arrive when sending it took `tookMs`. */
export function arrivalMs(tookMs: number, length: number): number {
  const arrived = Math.max(1, length - ON_THE_WAY_BYTES)
  return Math.max(0, tookMs) * Math.min(1, ON_THE_WAY_BYTES / arrived)
}
