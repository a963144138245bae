const TICKS_PER_MS = 10_000n
/** From the epoch of NTFS (1601) to Unix's, in milliseconds. */
const NTFS_EPOCH_MS = 11_644_473_600_000

/** MS-DOS date (upper 16 bits) and time as milliseconds since the epoch; local time, as the format has it. */
export function fromDosTime(dosTime: number): number {
  const date = dosTime >>> 16
  return new Date(
    1980 + (date >>> 9),
    ((date >>> 5) & 15) - 1,
    date & 31,
    (dosTime >>> 11) & 31,
    (dosTime >>> 5) & 63,
    (dosTime & 31) * 2,
  ).getTime()
}

/** MS-DOS date and time in UTC, so that the same input gives the same bytes in every time zone. */
export function toDosTime(ms: number): number {
  const limited = Math.min(Math.max(ms, Date.UTC(1980, 0, 1)), Date.UTC(2107, 11, 31, 23, 59, 58))
  const time = new Date(limited)
  const date =
    ((time.getUTCFullYear() - 1980) << 9) | ((time.getUTCMonth() + 1) << 5) | time.getUTCDate()
  const clock =
    (time.getUTCHours() << 11) | (time.getUTCMinutes() << 5) | (time.getUTCSeconds() >> 1)
  return ((date << 16) | clock) >>> 0
}

/** Ticks of 100 ns since 1601, as the NTFS extra field has them. */
export function toNtfsTime(ms: number): bigint {
  const whole = Math.floor(ms)
  const ticks = Math.round((ms - whole) * Number(TICKS_PER_MS))
  return BigInt.asUintN(64, BigInt(whole + NTFS_EPOCH_MS) * TICKS_PER_MS + BigInt(ticks))
}

export function fromNtfsTime(ticks: bigint): number {
  const ms = Number(ticks / TICKS_PER_MS) - NTFS_EPOCH_MS
  return ms + Number(ticks % TICKS_PER_MS) / Number(TICKS_PER_MS)
}
