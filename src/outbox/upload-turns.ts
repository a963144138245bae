/** So long after a file was closed a program may close the next, in milliseconds. */
const CLOSING_MS = 100
/** Meanwhile one upload begins in this time, in milliseconds. */
const PACE_MS = 25

/**
 * While a program that does not wait for the service closes one file after the other, uploads begin one by one: an upload
 * takes several times the processor that a close does.
 */
export class UploadTurns {
  #closedAtMs = -Infinity
  #begunAtMs = -Infinity

  /** A program closed a file, and did not wait for the service. */
  noteClose(nowMs: number): void {
    this.#closedAtMs = nowMs
  }

  noteBegin(nowMs: number): void {
    this.#begunAtMs = nowMs
  }

  /** When the next upload may begin; undefined for at once. */
  next(nowMs: number): number | undefined {
    const isClosing = isWithin(CLOSING_MS, this.#closedAtMs, nowMs)
    return isClosing && isWithin(PACE_MS, this.#begunAtMs, nowMs)
      ? this.#begunAtMs + PACE_MS
      : undefined
  }
}

/** A clock that was set back must not make anything wait for a time that is far away. */
function isWithin(ms: number, sinceMs: number, nowMs: number): boolean {
  return nowMs >= sinceMs && nowMs < sinceMs + ms
}
