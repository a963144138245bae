import { Command } from '@commander-js/extra-typings'
import type { CommandContext } from './context.ts'
import { readVersion } from './version.ts'

const AFTER_HELP = `
Start with an account of your own on this machine:
  mkdir drive && bagfs mount drive --local

or with one of a service:
  bagfs mount drive --url https://app.openfiles.xyz --token-file token.txt

Exit codes: 1 failed, 2 wrong use, 3 not allowed, 4 not found, 5 no answer from the service,
6 no space, 7 in use, 70 a bug in bagfs, 130 interrupted.`

type AddCommand = (program: Command, context: CommandContext) => void

/** In the order of the help. Each loads its own libraries, which takes longer than all else that a short command does. */
const COMMANDS: ReadonlyMap<string, () => Promise<AddCommand>> = new Map([
  ['mount', async () => (await import('./mount.ts')).addMount],
  ['umount', async () => (await import('./umount.ts')).addUmount],
  ['status', async () => (await import('./status.ts')).addStatus],
  ['sync', async () => (await import('./sync.ts')).addSync],
  ['outbox', async () => (await import('./outbox.ts')).addOutbox],
  ['cache', async () => (await import('./cache.ts')).addCache],
  ['serve', async () => (await import('./serve.ts')).addServe],
  ['ls', async () => (await import('./ls.ts')).addLs],
  ['put', async () => (await import('./put.ts')).addPut],
  ['get', async () => (await import('./get.ts')).addGet],
  ['rm', async () => (await import('./rm.ts')).addRm],
  ['import', async () => (await import('./import.ts')).addImport],
  ['df', async () => (await import('./df.ts')).addDf],
  ['drive-process', async () => (await import('./drive-process.ts')).addDriveProcess],
  ['demo', async () => (await import('./demo.ts')).addDemo],
])
const VERSION_FLAGS = ['-V', '--version']

/**
 * Builds the command tree, as far as `typed`, the arguments of the program, needs it. Commands reject with
 * DriveErrors; commander leaves by CommanderErrors.
 */
export async function createProgram(
  context: CommandContext,
  typed: readonly string[],
): Promise<Command> {
  const { output } = context
  const program = new Command('bagfs')
    .description('Mounts an account of a file storage service as a drive.')
    .version(readVersion())
    .configureOutput({
      writeOut: (text) => {
        output.raw('stdout', text)
      },
      writeErr: (text) => {
        output.raw('stderr', text)
      },
      // The error itself is put into words by toFailure.
      outputError: () => undefined,
    })
    .exitOverride()
    .addHelpText('after', AFTER_HELP)
  for (const load of neededBy(typed)) (await load())(program, context)
  return program
}

/** The command that is named first; without one the help lists all. */
function neededBy([first = '']: readonly string[]): readonly (() => Promise<AddCommand>)[] {
  const named = COMMANDS.get(first)
  if (named !== undefined) return [named]
  return VERSION_FLAGS.includes(first) ? [] : [...COMMANDS.values()]
}
