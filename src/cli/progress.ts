import cliProgress from 'cli-progress'
import type { SingleBar } from 'cli-progress'
import { formatSize } from '../config/sizes.ts'
import type { Output } from './output.ts'
import { toPrintable } from '../domain/printable.ts'

/** Called with the bytes moved so far. */
export type ProgressListener = (bytes: number) => void

const LONGEST_LABEL = 32

/**
 * Draws a progress bar while `task` runs, on a terminal; in a pipe nothing is drawn.
 * `totalBytes` undefined is a bar without an end.
 */
export async function withProgress<T>(
  output: Output,
  transfer: { readonly label: string; readonly totalBytes: number | undefined },
  task: (onProgress: ProgressListener) => Promise<T>,
): Promise<T> {
  const terminal = output.terminal
  if (terminal === undefined) return task(() => undefined)
  const bar = createBar(terminal, transfer.label, transfer.totalBytes)
  bar.start(transfer.totalBytes ?? 0, 0)
  try {
    return await task((bytes) => {
      bar.update(bytes)
    })
  } finally {
    bar.stop()
  }
}

function createBar(
  terminal: NodeJS.WritableStream,
  label: string,
  totalBytes: number | undefined,
): SingleBar {
  const name = toPrintable(label)
  const short = name.length <= LONGEST_LABEL ? name : `${name.slice(0, LONGEST_LABEL - 1)}…`
  return new cliProgress.SingleBar({
    stream: terminal,
    clearOnComplete: true,
    hideCursor: true,
    format: (options, { progress, value, startTime }) => {
      const seconds = Math.max((Date.now() - startTime) / 1000, 0.001)
      const speed = `${formatSize(value / seconds)}/s`
      if (totalBytes === undefined) return `${short}  ${formatSize(value)}  ${speed}`
      const drawn = cliProgress.Format.BarFormat(progress, options)
      return `${short}  ${drawn}  ${formatSize(value)} of ${formatSize(totalBytes)}  ${speed}`
    },
  })
}
