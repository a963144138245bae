import { formatSize } from '../config/sizes.ts'
import type { Pace, Transfer, TransferSpeeds } from '../control/transfer-speeds.ts'
import { formatTime } from './format-time.ts'

/** `movie.mkv, 2.0 MB of 1.0 GB, 4.0 MB/s, 4 min left`; without speeds how far it is. */
export function describeTransfer(transfer: Transfer, speeds?: TransferSpeeds): string {
  const { name } = transfer
  return [name, describeProgress(transfer), ...describePace(transfer, speeds?.of(transfer))].join(
    ', ',
  )
}

/** `2.0 MB of 1.0 GB` */
export function describeProgress({ bytes, totalBytes }: Transfer): string {
  return `${formatSize(bytes)}${totalBytes === undefined ? '' : ` of ${formatSize(totalBytes)}`}`
}

/** `4.0 MB/s` and `4 min left`; nothing while that is not known. */
export function describePace(
  { direction, bytes, totalBytes }: Transfer,
  pace: Pace | undefined,
): readonly string[] {
  if (direction === 'up' && totalBytes !== undefined && bytes >= totalBytes) {
    return ['waits for the answer']
  }
  if (pace === undefined) return []
  const { bytesPerSecond, secondsLeft } = pace
  if (bytesPerSecond <= 0) return ['stands still']
  const left = secondsLeft === undefined ? [] : [`${formatTime(1000 * secondsLeft)} left`]
  return [describeSpeed(bytesPerSecond), ...left]
}

/** `3.1 MB/s` */
export function describeSpeed(bytesPerSecond: number): string {
  return `${formatSize(bytesPerSecond)}/s`
}
