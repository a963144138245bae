import type { DriveStatus } from './protocol.ts'

interface TransferReading {
  readonly atMs: number
  readonly bytes: number
}

/** What is known of how a transfer goes. */
export interface Pace {
  readonly bytesPerSecond: number
  /** Missing where the length is not known, or nothing moves. */
  readonly secondsLeft?: number
}

/** A transfer under way: an upload by the id of its change, a download by that of its bag. */
export interface Transfer {
  readonly key: string
  readonly name: string
  readonly direction: 'up' | 'down'
  readonly bytes: number
  readonly totalBytes?: number
}

/** Long enough for pieces that come in bursts, short enough to show that it stands still. */
const WINDOW_MS = 5_000

/** What goes up and comes down, in one form. */
export function transfersOf({ uploads, downloads }: DriveStatus): readonly Transfer[] {
  return [
    ...uploads.map(({ id, name, sentBytes, totalBytes }): Transfer => {
      return { key: `up-${id}`, name, direction: 'up', bytes: sentBytes, totalBytes }
    }),
    ...downloads.map(({ bagId, name, receivedBytes, totalBytes }): Transfer => {
      const total = totalBytes === undefined ? {} : { totalBytes }
      const what = { key: `down-${bagId}`, name: name ?? bagId, bytes: receivedBytes }
      return { ...what, direction: 'down', ...total }
    }),
  ]
}

/** How fast transfers go, from one status of a drive to the next. */
export class TransferSpeeds {
  /** By the key of the transfer; those that are over go with the next status. */
  #readings = new Map<string, readonly TransferReading[]>()

  note(transfers: readonly Transfer[], atMs: number): void {
    this.#readings = new Map(
      transfers.map(({ key, bytes }) => [key, this.#goingOn(key, { atMs, bytes })]),
    )
  }

  /** Undefined before the second status that has it. */
  of({ key, bytes, totalBytes }: Transfer): Pace | undefined {
    const readings = this.#readings.get(key) ?? []
    const [first] = readings
    const last = readings.at(-1)
    if (first === undefined || last === undefined || first.atMs >= last.atMs) return undefined
    const bytesPerSecond = (1000 * (last.bytes - first.bytes)) / (last.atMs - first.atMs)
    if (totalBytes === undefined || bytesPerSecond <= 0) return { bytesPerSecond }
    return { bytesPerSecond, secondsLeft: Math.max(0, totalBytes - bytes) / bytesPerSecond }
  }

  #goingOn(key: string, now: TransferReading): readonly TransferReading[] {
    const before = this.#readings.get(key) ?? []
    // One that begins anew has no speed of before; nor has one before whose time the clock was set.
    const last = before.at(-1)
    if (last === undefined || last.bytes > now.bytes || last.atMs > now.atMs) return [now]
    const kept = before.filter(({ atMs }) => atMs >= now.atMs - WINDOW_MS)
    return [...kept, now]
  }
}
