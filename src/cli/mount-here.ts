import type { Logger } from '../domain/logger.ts'
import { createLogger } from './logging.ts'
import { runMountJob } from './mount-job.ts'
import type { MountJob } from './mount-job.ts'
import type { Output } from './output.ts'
import { createLeavingLine } from './leaving-line.ts'
import { listenForStop } from './signals.ts'

/** Runs a mount in this process until it is unmounted, with its log on stderr. */
export async function mountHere(
  output: Output,
  job: MountJob,
  options: { readonly onReady: () => void; readonly abandoned?: AbortSignal },
): Promise<void> {
  const signals = listenForStop()
  const { abandoned } = options
  const line = createLeavingLine(output)
  try {
    await runMountJob(job, {
      log: createJobLogger(output, job),
      onReady: options.onReady,
      stopSignal: signals.stop,
      nowSignal: abandoned === undefined ? signals.now : AbortSignal.any([signals.now, abandoned]),
      onProgress: line.show,
    })
  } finally {
    line.end()
    signals.ignore()
  }
}

function createJobLogger(output: Output, job: MountJob): Logger {
  return createLogger(job.log, {
    write: (text) => {
      output.raw('stderr', text)
    },
    secrets: [job.service.token],
  })
}
