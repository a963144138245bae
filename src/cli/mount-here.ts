import { createStderrLogger } from './logging.ts'
import { runMountJob } from './mount-job.ts'
import type { MountJob } from './mount-job.ts'
import type { Output } from './output.ts'
import type { ServiceManager } from '../mount/service-manager.ts'
import { createLeavingLine, describeLeaving, describeWaiting } from './leaving-line.ts'
import { listenForStop } from './signals.ts'
import type { StopSignals } from './signals.ts'

export interface MountHereOptions {
  readonly onReady: () => void
  readonly abandoned?: AbortSignal
  /** Told how the drive is, too. */
  readonly manager?: ServiceManager
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
  const { abandoned, manager } = options
  const line = createLeavingLine(output, manager === undefined ? describeLeaving : describeWaiting)
  const secrets = new Set([job.service.token])
  const log = createStderrLogger(output, secrets, job.log)
  signals.stop.addEventListener('abort', () => manager?.stopping(log, 'Leaving.'))
  try {
    await runMountJob(job, {
      log,
      onSecret: (secret) => secrets.add(secret),
      onReady: () => {
        manager?.ready(log, `Mounted at ${job.drive.mountpoint}`)
        options.onReady()
      },
      stopSignal: signals.stop,
      nowSignal: abandoned === undefined ? signals.now : AbortSignal.any([signals.now, abandoned]),
      onProgress: (progress) => {
        line.show(progress)
        manager?.stopping(log, describeWaiting(progress))
      },
    })
  } finally {
    line.end()
    if (options.signals === undefined) signals.ignore()
  }
}
