import { DriveError } from '../domain/errors.ts'

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

const DURATION = /^(\d+(?:\.\d+)?) ?([a-z]+)$/

/** A timer of Node takes no more than this. */
const LONGEST_MS = 2 ** 31 - 1
/** How long something may be kept: 100 years. */
const LONGEST_KEPT_MS = 36_525 * 86_400_000

/**
 * Parses a duration a person typed (`500ms`, `5s`, `1m`, `2h`, `7d`, `0`) to milliseconds.
 * A number without a unit is refused: it could mean either seconds or milliseconds.
 */
export function parseDuration(text: string): number {
  return parse(text, LONGEST_MS)
}

/** As `parseDuration`, for a time that no timer waits for. */
export function parseKeepingTime(text: string): number {
  return parse(text, LONGEST_KEPT_MS)
}

function parse(text: string, longestMs: number): number {
  const typed = text.trim().toLowerCase()
  if (typed === '0') return 0
  const [, digits = '', unit = ''] = DURATION.exec(typed) ?? []
  const factor = UNITS[unit]
  const ms = digits === '' || factor === undefined ? NaN : Math.round(Number(digits) * factor)
  if (!(ms <= longestMs)) {
    throw new DriveError('usage', `"${text}" is not a duration.`, {
      hint: 'Write it as 500ms, 5s, 1m, 2h or 7d.',
    })
  }
  return ms
}
