import type { Command } from '@commander-js/extra-typings'
import { askToRefresh } from '../control/client.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf, findLiveDrives } from './drive-places.ts'

/** Adds `bagfs refresh`. */
export function addRefresh(program: Command, { output }: CommandContext): void {
  program
    .command('refresh')
    .description('ask the service now what there is: what other machines changed shows at once')
    .argument('[path]', 'a drive, or a path in one, also as PROFILE:PATH (default: all drives)')
    .action(async (path) => {
      const drives = path === undefined ? await findLiveDrives() : [(await findDriveOf(path)).drive]
      if (drives.length === 0) output.note('No drive is mounted.')
      for (const { mountpoint, socketPath } of drives) {
        const bags = await askToRefresh(socketPath)
        output.line(`${mountpoint}: ${bags === 1 ? '1 bag' : `${bags} bags`}`)
      }
    })
}
