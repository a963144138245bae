import type { Command } from '@commander-js/extra-typings'
import { askMetrics } from '../control/client.ts'
import type { CommandContext } from './context.ts'
import { findOneDrive } from './drive-places.ts'

/** Adds `bagfs metrics`. */
export function addMetrics(program: Command, { output }: CommandContext): void {
  program
    .command('metrics')
    .description('print the figures of a mounted drive in the form of Prometheus')
    .argument('[mountpoint]', 'the drive, or its PROFILE (default: the only one)')
    .action(async (path) => {
      const { socketPath } = await findOneDrive(path)
      output.raw('stdout', await askMetrics(socketPath))
    })
}
