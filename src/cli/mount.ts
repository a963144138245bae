import { Option } from '@commander-js/extra-typings'
import type { Command } from '@commander-js/extra-typings'
import { MOUNT_OPTION_KEYS, MOUNT_OPTIONS, parseOptionValue } from '../config/options.ts'
import type { MountFlags, MountOption, MountOptionKey } from '../config/options.ts'
import { chooseOptions } from '../profiles/choose-options.ts'
import { asOptionParser } from './account.ts'
import type { CommandContext } from './context.ts'
import type { ServiceManager } from '../mount/service-manager.ts'
import { findLeftElsewhere } from './left-elsewhere.ts'
import { mountInBackground } from './mount-background.ts'
import type { MountJob } from './mount-job.ts'
import { parseTarget } from './mount-target.ts'
import { planMount } from './plan-mount.ts'
import { Prompt } from './prompt.ts'
import type { Output } from './output.ts'
import { typedOptions } from './typed-options.ts'

const AFTER_HELP = `
Each option can also be set in the environment (BAGFS_CACHE_SIZE=20GB) and for a profile in the config file
(cache-size: 20GB); what is typed goes before the environment, and that before the profile. --no-NAME turns off what
they turn on, such as --no-write-back. bagfs config shows where each value comes from.`

export function addMount(program: Command, context: CommandContext): void {
  const command = program
    .command('mount')
    .description('mount an account as a drive')
    .usage('[options] [PROFILE:]<mountpoint>')
    .argument('<mountpoint>', 'an empty directory; after PROFILE: the account of that name')
    .addHelpText('after', AFTER_HELP)
  const texts = new Map<MountOptionKey, string>()
  for (const key of MOUNT_OPTION_KEYS) {
    command.addOption(toCommanderOption(MOUNT_OPTIONS[key], (text) => texts.set(key, text)))
  }
  for (const option of Object.values(MOUNT_OPTIONS)) {
    if (option.kind === 'flag') command.addOption(toNegation(option))
  }
  command.action(async (target, flags: MountFlags) => {
    const { profile, mountpoint } = parseTarget(target)
    const { environment, output } = context
    const chosen = await chooseOptions({ environment, flags, profile })
    const plan = await planMount(context, mountpoint, chosen, (path) => mayMake(output, path))
    const job = { ...plan, drive: { ...plan.drive, options: typedOptions(flags, texts) } }
    const { foreground = false, background = true } = chosen.options
    if (foreground || !background) await stay(context, job)
    else await leaveRunning(output, job)
  })
}

/** A person at a terminal is asked; others are told how to make it. */
async function mayMake(output: Output, path: string): Promise<boolean> {
  const prompt = Prompt.open(output)
  if (prompt === undefined) return false
  try {
    return await prompt.confirm(`${path} does not exist. Make it?`, { usual: true })
  } finally {
    prompt.close()
  }
}

/** Defaults are only shown here: settings apply them, and know that way what the person typed. */
function toCommanderOption(option: MountOption, onText: (text: string) => void): Option {
  const shown = option.default ?? option.defaultWords
  const suffix = shown === undefined || shown === 'false' ? '' : ` (default: ${shown})`
  const made = new Option(
    option.flags,
    `${option.help}${suffix === ' (default: true)' ? ' (the default)' : suffix}`,
  )
  if (option.kind === 'flag') return made
  return made.argParser(
    asOptionParser((text) => {
      onText(text)
      return parseOptionValue(option.kind, text)
    }),
  )
}

/** Turns off what the environment or the profile turns on. */
function toNegation({ flags, help }: MountOption): Option {
  return new Option(flags.replace('--', '--no-'), `not: ${help}`).hideHelp()
}

async function stay({ output, environment }: CommandContext, job: MountJob): Promise<void> {
  // All of the drive: a mount in the background loads it in its own process.
  const { mountHere } = await import('./mount-here.ts')
  const { notifySocket } = environment
  const manager = notifySocket === undefined ? undefined : await openManager(notifySocket)
  await mountHere(output, job, {
    ...(manager === undefined ? {} : { manager }),
    onReady: () => {
      const how = manager === undefined ? ' Ctrl-C unmounts.' : ''
      output.note(`Mounted at ${job.drive.mountpoint}.${how}`)
    },
  })
}

async function openManager(socket: string): Promise<ServiceManager> {
  const { ServiceManager } = await import('../mount/service-manager.ts')
  return ServiceManager.open(socket)
}

async function leaveRunning(output: Output, job: MountJob): Promise<void> {
  const { report, logPath } = await mountInBackground(job)
  if (report.type === 'ready') {
    output.note(`Mounted at ${job.drive.mountpoint}. Log: ${logPath}`)
    await warnOfLeftElsewhere(output, job)
    return
  }
  output.note(report.failure.text, 'error')
  process.exitCode = report.failure.exitCode
}

async function warnOfLeftElsewhere(output: Output, { drive }: MountJob): Promise<void> {
  for (const sentence of await findLeftElsewhere(drive)) output.warn(sentence)
}
