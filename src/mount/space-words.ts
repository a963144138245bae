import { formatSize } from '../config/sizes.ts'
import type { DriveStatus } from '../control/protocol.ts'

const BAR_CELLS = 20

/** `[#####---------------] 24 % used: 240 MB of 1.0 GB, 760 MB left` */
export function describeSpace({ capacity, free }: NonNullable<DriveStatus['space']>): string {
  const used = Math.max(0, capacity - free)
  const bar = drawBar(used, capacity)
  const left = `${formatSize(free)} left`
  return `[${bar}] ${usedShare(used, capacity)} used: ${formatSize(used)} of ${formatSize(capacity)}, ${left}`
}

/** What is used shows in a cell at least, and what is left too. */
function drawBar(used: number, capacity: number): string {
  const share = capacity <= 0 ? 1 : Math.min(1, used / capacity)
  const least = used > 0 ? 1 : 0
  const most = share < 1 ? BAR_CELLS - 1 : BAR_CELLS
  const filled = Math.min(most, Math.max(least, Math.round(share * BAR_CELLS)))
  return '#'.repeat(filled) + '-'.repeat(BAR_CELLS - filled)
}

/** A little of much is not told as a whole percent of it, and what has room left is not told to be full. */
export function usedShare(used: number, capacity: number): string {
  const percent = capacity > 0 ? (used / capacity) * 100 : 100
  if (percent > 0 && percent < 1) return 'under 1 %'
  const nearest = Math.round(percent)
  return `${percent < 100 ? Math.min(nearest, 99) : nearest} %`
}

/** `answers 82 % of reads`; nothing before there was one. */
export function describeHits({
  hits = 0,
  misses = 0,
}: Pick<DriveStatus['cache'], 'hits' | 'misses'>): string | undefined {
  const reads = hits + misses
  return reads === 0 ? undefined : `answers ${Math.floor((100 * hits) / reads)} % of reads`
}
