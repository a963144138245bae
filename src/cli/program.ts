import { Command } from '@commander-js/extra-typings'
import type { CommandContext } from './context.ts'
import { EXIT_CODES_IN_WORDS } from './errors.ts'
import { readVersion } from './version.ts'

const AFTER_HELP = `
Start with the account of a service, or with one of your own on this machine:
  bagfs login                  or: bagfs login --local
  bagfs mount ~/drive

${EXIT_CODES_IN_WORDS}`

type AddCommand = (program: Command, context: CommandContext) => void

/** In the order of the help. Each loads its own libraries, which takes longer than all else that a short command does. */
const COMMANDS: ReadonlyMap<string, () => Promise<AddCommand>> = new Map([
  ['login', async () => (await import('./login.ts')).addLogin],
  ['logout', async () => (await import('./logout.ts')).addLogout],
  ['profiles', async () => (await import('./profiles.ts')).addProfiles],
  ['config', async () => (await import('./config.ts')).addConfig],
  ['mount', async () => (await import('./mount.ts')).addMount],
  ['umount', async () => (await import('./umount.ts')).addUmount],
  ['service', async () => (await import('./service.ts')).addService],
  ['desktop', async () => (await import('./desktop.ts')).addDesktop],
  ['status', async () => (await import('./status.ts')).addStatus],
  ['doctor', async () => (await import('./doctor.ts')).addDoctor],
  ['explain', async () => (await import('./explain.ts')).addExplain],
  ['refresh', async () => (await import('./refresh.ts')).addRefresh],
  ['warmup', async () => (await import('./warmup.ts')).addWarmUp],
  ['pin', async () => (await import('./pin.ts')).addPin],
  ['unpin', async () => (await import('./unpin.ts')).addUnpin],
  ['log', async () => (await import('./log.ts')).addLog],
  ['metrics', async () => (await import('./metrics.ts')).addMetrics],
  ['trace', async () => (await import('./trace.ts')).addTrace],
  ['sync', async () => (await import('./sync.ts')).addSync],
  ['outbox', async () => (await import('./outbox.ts')).addOutbox],
  ['trash', async () => (await import('./trash.ts')).addTrash],
  ['cache', async () => (await import('./cache.ts')).addCache],
  ['serve', async () => (await import('./serve.ts')).addServe],
  ['ls', async () => (await import('./ls.ts')).addLs],
  ['put', async () => (await import('./put.ts')).addPut],
  ['get', async () => (await import('./get.ts')).addGet],
  ['rm', async () => (await import('./rm.ts')).addRm],
  ['import', async () => (await import('./import.ts')).addImport],
  ['df', async () => (await import('./df.ts')).addDf],
  ['completion', async () => (await import('./completion.ts')).addCompletion],
  ['man-pages', async () => (await import('./man-pages.ts')).addManPages],
  ['drive-process', async () => (await import('./drive-process.ts')).addDriveProcess],
  ['demo', async () => (await import('./demo.ts')).addDemo],
])
/** They tell of all others. */
const ABOUT_ALL = ['completion', 'man-pages']
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
  if (named !== undefined && !ABOUT_ALL.includes(first)) return [named]
  return VERSION_FLAGS.includes(first) ? [] : [...COMMANDS.values()]
}
