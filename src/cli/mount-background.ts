import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { isAutomount } from '../disk/find-mount.ts'
import { DriveError } from '../domain/errors.ts'
import type { CommandFailure } from './errors.ts'
import type { MountJob } from './mount-job.ts'
import { openMountLog } from './mount-log.ts'
import { V8_ARGUMENTS } from '../mount/tune-v8.ts'

/** The hidden command of the process that runs a background mount. */
export const DRIVE_PROCESS_COMMAND = 'drive-process'

/** What that process tells the one that started it. */
export type MountReport =
  | { readonly type: 'ready'; readonly pid: number }
  | { readonly type: 'failed'; readonly failure: CommandFailure }

/** How a background mount went, and where its log is. */
export interface BackgroundMount {
  readonly report: MountReport
  readonly logPath: string
}

/**
 * Mounts in a process of its own that outlives this one; resolves when the drive answers or has failed.
 * The job goes to it over the IPC channel, so that the token is in no argument, no
 * variable and no file.
 */
export async function mountInBackground(job: MountJob): Promise<BackgroundMount> {
  const { stateDir, mountpoint } = job.drive
  const { path: logPath, file } = await openMountLog(stateDir, mountpoint)
  try {
    const [, program = ''] = process.argv
    const child = spawn(
      process.execPath,
      // The mountpoint shows in the list of processes.
      [...V8_ARGUMENTS, ...process.execArgv, program, DRIVE_PROCESS_COMMAND, mountpoint],
      {
        // A group of its own keeps Ctrl-C away. An automounter's group alone may mount what it waits for.
        detached: !(await isAutomount(mountpoint)),
        cwd: '/',
        stdio: ['ignore', file.fd, file.fd, 'ipc'],
      },
    )
    const report = await hearReport(child, job, logPath)
    if (child.connected) child.disconnect()
    child.unref()
    return { report, logPath }
  } finally {
    await file.close()
  }
}

function hearReport(child: ChildProcess, job: MountJob, logPath: string): Promise<MountReport> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => {
      resolve(message as MountReport)
    })
    child.once('error', (error) => {
      reject(new DriveError('local-io', 'Starting the drive failed.', { cause: error }))
    })
    child.once('exit', (code, signal) => {
      const how = signal === null ? `with exit code ${String(code)}` : `by ${signal}`
      reject(
        new DriveError('local-io', `The drive ended ${how} before it was ready.`, {
          hint: `Its log tells more: ${logPath}`,
        }),
      )
    })
    child.send(job, (error) => {
      // A process that ended before it read the job is reported by its exit.
      if (error !== null && child.exitCode === null && child.signalCode === null) child.kill()
    })
  })
}
