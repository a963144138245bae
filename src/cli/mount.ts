import { Option } from '@commander-js/extra-typings'
import type { Command } from '@commander-js/extra-typings'
import { MOUNT_OPTIONS, parseOptionValue } from '../config/options.ts'
import type { MountFlags, MountOption } from '../config/options.ts'
import { asOptionParser } from './account.ts'
import type { CommandContext } from './context.ts'
import { mountInBackground } from './mount-background.ts'
import type { MountJob } from './mount-job.ts'
import { planMount } from './plan-mount.ts'
import type { Output } from './output.ts'

export function addMount(program: Command, context: CommandContext): void {
  const command = program
    .command('mount')
    .description('mount an account as a drive')
    .argument('<mountpoint>', 'an empty directory')
  for (const option of Object.values(MOUNT_OPTIONS)) command.addOption(toCommanderOption(option))
  command.action(async (mountpoint, flags: MountFlags) => {
    const job = await planMount(context, mountpoint, flags)
    if (flags.foreground === true) await stay(context.output, job)
    else await leaveRunning(context.output, job)
  })
}

/** Defaults are only shown here: settings apply them, and know that way what the person typed. */
function toCommanderOption(option: MountOption): Option {
  const shown = option.default ?? option.defaultWords
  const suffix = shown === undefined || shown === 'false' ? '' : ` (default: ${shown})`
  const made = new Option(
    option.flags,
    `${option.help}${suffix === ' (default: true)' ? ' (the default)' : suffix}`,
  )
  if (option.kind === 'flag') return made
  return made.argParser(asOptionParser((text) => parseOptionValue(option.kind, text)))
}

async function stay(output: Output, job: MountJob): Promise<void> {
  // All of the drive: a mount in the background loads it in its own process.
  const { mountHere } = await import('./mount-here.ts')
  await mountHere(output, job, {
    onReady: () => {
      output.note(`Mounted at ${job.drive.mountpoint}. Ctrl-C unmounts.`)
    },
  })
}

async function leaveRunning(output: Output, job: MountJob): Promise<void> {
  const { report, logPath } = await mountInBackground(job)
  if (report.type === 'ready') {
    output.note(`Mounted at ${job.drive.mountpoint}. Log: ${logPath}`)
    return
  }
  output.note(report.failure.text)
  process.exitCode = report.failure.exitCode
}
