import type { DriveStatus } from '../control/protocol.ts'

/** Between two looks at a drive, in bytes per second. */
export interface TrafficStep {
  /** When it ended, in ms since the epoch. */
  readonly atMs: number
  readonly up: number
  readonly down: number
}

interface Totals {
  readonly pid: number
  readonly atMs: number
  readonly sentBytes: number
  readonly receivedBytes: number
}

export const HISTORY_MS = 5 * 60_000
const NOW_MS = 3_000

/** How much went to the service and came from it over the last minutes. */
export class TrafficHistory {
  #last: Totals | undefined
  #steps: readonly TrafficStep[] = []

  /** To be called with each status, and with none while the drive is away. */
  note(status: DriveStatus | undefined, atMs: number): void {
    const last = this.#last
    const now = totalsOf(status, atMs)
    this.#last = now
    this.#steps = this.#steps.filter((step) => step.atMs > atMs - HISTORY_MS && step.atMs <= atMs)
    if (last === undefined || last.atMs >= atMs) return
    this.#steps = [...this.#steps, now?.pid === last.pid ? between(last, now) : stillAt(atMs)]
  }

  /** The oldest first. */
  steps(): readonly TrafficStep[] {
    return this.#steps
  }

  /** Of the last seconds, so that bursts do not flicker. */
  now(atMs: number): { readonly up: number; readonly down: number } {
    const late = this.#steps.filter((step) => step.atMs > atMs - NOW_MS)
    const mean = (of: (step: TrafficStep) => number): number =>
      late.reduce((sum, step) => sum + of(step), 0) / Math.max(1, late.length)
    return { up: mean(({ up }) => up), down: mean(({ down }) => down) }
  }
}

function totalsOf(status: DriveStatus | undefined, atMs: number): Totals | undefined {
  if (status?.traffic === undefined) return undefined
  return { pid: status.pid, atMs, ...status.traffic }
}

function between(last: Totals, now: Totals): TrafficStep {
  const seconds = (now.atMs - last.atMs) / 1000
  return {
    atMs: now.atMs,
    up: (now.sentBytes - last.sentBytes) / seconds,
    down: (now.receivedBytes - last.receivedBytes) / seconds,
  }
}

function stillAt(atMs: number): TrafficStep {
  return { atMs, up: 0, down: 0 }
}
