import type { Command } from '@commander-js/extra-typings'
import { DriveError } from '../domain/errors.ts'
import type { CommandContext } from './context.ts'
import { toFailure } from './errors.ts'
import { DRIVE_PROCESS_COMMAND } from './mount-background.ts'
import type { MountReport } from './mount-background.ts'
import { mountHere } from './mount-here.ts'
import type { MountJob } from './mount-job.ts'

/** Adds the hidden command that runs a background mount; `bagfs mount` starts it. */
export function addDriveProcess(program: Command, context: CommandContext): void {
  program
    .command(DRIVE_PROCESS_COMMAND, { hidden: true })
    .argument('<mountpoint>')
    .action(() => runDriveProcess(context))
}

async function runDriveProcess({ output }: CommandContext): Promise<void> {
  if (process.send === undefined) {
    throw new DriveError('usage', `${DRIVE_PROCESS_COMMAND} is started by bagfs mount only.`)
  }
  const abandoned = new AbortController()
  const onDisconnect = (): void => {
    abandoned.abort(new DriveError('interrupted', 'The command that was mounting has ended.'))
  }
  process.once('disconnect', onDisconnect)
  const stopListening = (): void => {
    process.off('disconnect', onDisconnect)
  }
  const onReady = (): void => {
    stopListening()
    report({ type: 'ready', pid: process.pid })
  }
  try {
    await mountHere(output, forFile(await receiveJob()), { onReady, abandoned: abandoned.signal })
  } catch (error) {
    stopListening()
    await new Promise<void>((resolve) => {
      report({ type: 'failed', failure: toFailure(error) }, resolve)
    })
    throw error
  } finally {
    if (process.connected) process.disconnect()
  }
}

/** Its stderr is the log file. */
function forFile(job: MountJob): MountJob {
  return { ...job, log: { ...job.log, isFile: true } }
}

function receiveJob(): Promise<MountJob> {
  return new Promise((resolve) => {
    process.once('message', (message) => {
      resolve(message as MountJob)
    })
  })
}

/** The starting process has gone once the drive was ready; the log then has the error. */
function report(message: MountReport, onSent = (): void => undefined): void {
  const sent = (): void => {
    onSent()
  }
  // The starting process may end at this moment, which shows as a disconnect.
  if (process.connected) process.send?.(message, undefined, undefined, sent)
  else sent()
}
