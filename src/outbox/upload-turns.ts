/** So long after a file was closed a program may close the next, in milliseconds. */
const CLOSING_MS = 100
/** Meanwhile one upload begins in this time, in milliseconds. */
const PACE_MS = 25
/** At first fewer begin, so that a copy of some hundred files returns before they take its processor. */
const FIRST_MS = 2_000
const FIRST_PACE_MS = 250

/**
 * While a program that does not wait for the service closes one file after the other, uploads begin one by one: an upload
 * takes several times the processor that a close does.
 */
export class UploadTurns {
  /** Of the first close of those that follow each other. */
  #closingSinceMs = -Infinity
  #closedAtMs = -Infinity
  #begunAtMs = -Infinity

  /** A program closed a file, and did not wait for the service. */
  noteClose(nowMs: number): void {
    if (!isWithin(CLOSING_MS, this.#closedAtMs, nowMs)) this.#closingSinceMs = nowMs
    this.#closedAtMs = nowMs
  }

  noteBegin(nowMs: number): void {
    this.#begunAtMs = nowMs
  }

  /** When the next upload may begin; undefined for at once. */
  next(nowMs: number): number | undefined {
    if (!isWithin(CLOSING_MS, this.#closedAtMs, nowMs)) return undefined
    const paceMs = isWithin(FIRST_MS, this.#closingSinceMs, nowMs) ? FIRST_PACE_MS : PACE_MS
    if (!isWithin(paceMs, this.#begunAtMs, nowMs)) return undefined
    return Math.min(this.#begunAtMs + paceMs, this.#closedAtMs + CLOSING_MS)
  }
}

/** A clock that was set back must not make anything wait for a time that is far away. */
function isWithin(ms: number, sinceMs: number, nowMs: number): boolean {
  return nowMs >= sinceMs && nowMs < sinceMs + ms
}
