import { Command } from '@commander-js/extra-typings'
import { addCache } from './cache.ts'
import type { CommandContext } from './context.ts'
import { addDemo } from './demo.ts'
import { addDf } from './df.ts'
import { addDriveProcess } from './drive-process.ts'
import { addGet } from './get.ts'
import { addImport } from './import.ts'
import { addLs } from './ls.ts'
import { addMount } from './mount.ts'
import { addOutbox } from './outbox.ts'
import { addPut } from './put.ts'
import { addRm } from './rm.ts'
import { addServe } from './serve.ts'
import { addStatus } from './status.ts'
import { addSync } from './sync.ts'
import { addUmount } from './umount.ts'
import { readVersion } from './version.ts'

const AFTER_HELP = `
Start with an account of your own on this machine:
  mkdir drive && bagfs mount drive --local

or with one of a service:
  bagfs mount drive --url https://app.openfiles.xyz --token-file token.txt

Exit codes: 1 failed, 2 wrong use, 3 not allowed, 4 not found, 5 no answer from the service,
6 no space, 7 in use, 70 a bug in bagfs, 130 interrupted.`

/** Builds the command tree. Commands reject with DriveErrors; commander leaves by CommanderErrors. */
export function createProgram(context: CommandContext): Command {
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
  const drives = [addMount, addUmount, addStatus, addSync, addOutbox, addCache]
  const accounts = [addServe, addLs, addPut, addGet, addRm, addImport, addDf]
  const hidden = [addDriveProcess, addDemo]
  for (const addCommand of [...drives, ...accounts, ...hidden]) addCommand(program, context)
  return program
}
