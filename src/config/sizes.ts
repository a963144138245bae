import { DriveError } from '../domain/errors.ts'

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 1e3,
  kb: 1e3,
  kib: 2 ** 10,
  m: 1e6,
  mb: 1e6,
  mib: 2 ** 20,
  g: 1e9,
  gb: 1e9,
  gib: 2 ** 30,
  t: 1e12,
  tb: 1e12,
  tib: 2 ** 40,
}

/** Fewer bytes are hardly meant. */
const LEAST_WITHOUT_UNIT = 1_000

const SIZE = /^(\d+(?:\.\d+)?) ?([a-z]*)$/

/**
 * Parses a size a person typed: `10GB` and `10G` (powers of 1000), `512MiB` (powers of 1024), plain bytes.
 * Throws `usage` for what is not a whole, safe number of bytes, and for so few bytes that the unit was forgotten.
 */
export function parseSize(text: string): number {
  const [, digits = '', unit = ''] = SIZE.exec(text.trim().toLowerCase()) ?? []
  const factor = UNITS[unit]
  const bytes = digits === '' || factor === undefined ? NaN : Math.round(Number(digits) * factor)
  if (!Number.isSafeInteger(bytes)) {
    throw new DriveError('usage', `"${text}" is not a size.`, {
      hint: 'Write it as 10GB, 512MiB or a number of bytes.',
    })
  }
  if (unit === '' && bytes > 0 && bytes < LEAST_WITHOUT_UNIT) {
    throw new DriveError('usage', `"${text}" has no unit, and would be ${bytes} bytes.`, {
      hint: `Write it as ${text.trim()}GB, ${text.trim()}MB or ${text.trim()}B.`,
    })
  }
  return bytes
}

const STEPS = ['kB', 'MB', 'GB', 'TB', 'PB']

/** A size for people, in powers of 1000 with three digits at most: `1.5 GB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${Math.round(bytes)} B`
  let value = bytes / 1000
  let step = 0
  while (Math.round(value) >= 1000 && step < STEPS.length - 1) {
    value /= 1000
    step += 1
  }
  return `${value < 9.95 ? value.toFixed(1) : String(Math.round(value))} ${STEPS[step] ?? ''}`
}
