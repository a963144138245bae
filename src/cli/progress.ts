import cliProgress from 'cli-progress'
import type { SingleBar } from 'cli-progress'
import { formatSize } from '../config/sizes.ts'
import type { Output } from './output.ts'
import { toPrintable } from '../domain/printable.ts'

/** Called with the bytes moved so far. */
export type ProgressListener = (bytes: number) => void

/** What a progress bar is about. `totalBytes` undefined is a bar without an end. */
interface ShownTransfer {
  readonly label: string
  readonly totalBytes: number | undefined
}

/** Called with the bytes moved so far, of a transfer that may have changed. */
type BarDrawer = (transfer: ShownTransfer, bytes: number) => void

const LONGEST_LABEL = 32

/** Draws a progress bar while `task` runs, on a terminal; in a pipe nothing is drawn. */
export async function withProgress<T>(
  output: Output,
  transfer: ShownTransfer,
  task: (onProgress: ProgressListener) => Promise<T>,
): Promise<T> {
  return withBar(output, (draw) => {
    draw(transfer, 0)
    return task((bytes) => {
      draw(transfer, bytes)
    })
  })
}

/** As `withProgress`, for what is known only while it runs: the bar begins when it is drawn first. */
export async function withBar<T>(
  { terminal }: Output,
  task: (draw: BarDrawer) => Promise<T>,
): Promise<T> {
  if (terminal === undefined) return task(() => undefined)
  const about = { transfer: { label: '', totalBytes: undefined } as ShownTransfer, isBegun: false }
  const bar = createBar(terminal, about)
  try {
    return await task((transfer, bytes) => {
      about.transfer = transfer
      const total = transfer.totalBytes ?? 0
      if (!about.isBegun) bar.start(total, bytes)
      about.isBegun = true
      bar.setTotal(total)
      bar.update(bytes)
    })
  } finally {
    if (about.isBegun) bar.stop()
  }
}

function createBar(
  terminal: NodeJS.WritableStream,
  about: { readonly transfer: ShownTransfer },
): SingleBar {
  return new cliProgress.SingleBar({
    stream: terminal,
    clearOnComplete: true,
    hideCursor: true,
    format: (options, { progress, value, startTime }) => {
      const { label, totalBytes } = about.transfer
      const name = toPrintable(label)
      const short = name.length <= LONGEST_LABEL ? name : `${name.slice(0, LONGEST_LABEL - 1)}…`
      const seconds = Math.max((Date.now() - startTime) / 1000, 0.001)
      const speed = `${formatSize(value / seconds)}/s`
      if (totalBytes === undefined) return `${short}  ${formatSize(value)}  ${speed}`
      const drawn = cliProgress.Format.BarFormat(progress, options)
      return `${short}  ${drawn}  ${formatSize(value)} of ${formatSize(totalBytes)}  ${speed}`
    },
  })
}
