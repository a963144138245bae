import { formatSize } from '../config/sizes.ts'
import type { Output } from './output.ts'
import { toPrintable } from '../domain/printable.ts'
import type { LeavingProgress } from '../mount/running-drive.ts'

export interface LeavingLine {
  readonly show: (progress: LeavingProgress) => void
  /** Called when nothing more will be shown. */
  readonly end: () => void
}

/** Shows what a drive that leaves still waits for: one line that changes on a terminal, lines elsewhere. */
export function createLeavingLine(
  output: Output,
  describe: (progress: LeavingProgress) => string = describeLeaving,
): LeavingLine {
  let shown = ''
  const onTerminal = output.terminal !== undefined
  return {
    show: (progress) => {
      const text = describe(progress)
      if (text === shown) return
      if (onTerminal) output.raw('stderr', `\r\u001b[K${toPrintable(text)}`)
      else output.note(text)
      shown = text
    },
    end: () => {
      if (onTerminal && shown !== '') output.raw('stderr', '\n')
    },
  }
}

/** As `describeWaiting`, and what the person can do. */
export function describeLeaving(progress: LeavingProgress): string {
  const hint = progress.waiting === 0 ? '' : ' Once more to leave now; what waits is kept.'
  return `${describeWaiting(progress)}${hint}`
}

/** `Leaving: 3 changes wait, 12 MB at 4.0 MB/s, about 3 s.` */
export function describeWaiting(progress: LeavingProgress): string {
  const { waiting, waitingBytes, bytesPerSecond, failure } = progress
  if (waiting === 0) return 'Leaving: nothing waits any more.'
  const changes = waiting === 1 ? '1 change waits' : `${waiting} changes wait`
  const hasSpeed = bytesPerSecond !== undefined && bytesPerSecond > 0
  const speed = hasSpeed ? ` at ${formatSize(bytesPerSecond)}/s` : ''
  const parts = [changes, `${formatSize(waitingBytes)}${speed}`]
  if (hasSpeed) parts.push(`about ${formatSeconds(waitingBytes / bytesPerSecond)}`)
  if (failure !== undefined) parts.push(`last failure: ${failure.replace(/\.$/, '')}`)
  return `Leaving: ${parts.join(', ')}.`
}

function formatSeconds(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3600)} h`
}
