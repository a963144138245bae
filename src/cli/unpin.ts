import type { Command } from '@commander-js/extra-typings'
import { askToUnpin } from '../control/client.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf } from './drive-places.ts'

/** Adds `bagfs unpin`. */
export function addUnpin(program: Command, { output }: CommandContext): void {
  program
    .command('unpin')
    .description('let the cache give up again what was pinned')
    .argument(
      '<path...>',
      'files and folders in drives, also as PROFILE:PATH; also of names that are gone',
    )
    .action(async (paths) => {
      for (const path of paths) {
        const { drive, names } = await findDriveOf(path)
        const name = await askToUnpin(drive.socketPath, names)
        if (names.length > 1) {
          output.note(`${path} is in the folder ${name}, which is one bag: all of it is unpinned.`)
        }
        output.line(`${name}: unpinned; what is here stays until its room is needed`)
      }
    })
}
