import { createStderrLogger } from './logging.ts'
import { runMountJob } from './mount-job.ts'
import type { MountJob } from './mount-job.ts'
import type { Output } from './output.ts'
import { createLeavingLine } from './leaving-line.ts'
import { listenForStop } from './signals.ts'
import type { StopSignals } from './signals.ts'

export interface MountHereOptions {
  readonly onReady: () => void
  readonly abandoned?: AbortSignal
  /** Of a caller that listens already, and that stops listening. */
  readonly signals?: StopSignals
}

/** Runs a mount in this process until it is unmounted, with its log on stderr. */
export async function mountHere(
  output: Output,
  job: MountJob,
  options: MountHereOptions,
): Promise<void> {
  const signals = options.signals ?? listenForStop()
  const { abandoned } = options
  const line = createLeavingLine(output)
  const secrets = new Set([job.service.token])
  try {
    await runMountJob(job, {
      log: createStderrLogger(output, secrets, job.log),
      onSecret: (secret) => secrets.add(secret),
      onReady: options.onReady,
      stopSignal: signals.stop,
      nowSignal: abandoned === undefined ? signals.now : AbortSignal.any([signals.now, abandoned]),
      onProgress: line.show,
    })
  } finally {
    line.end()
    if (options.signals === undefined) signals.ignore()
  }
}
