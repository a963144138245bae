import type { Command } from '@commander-js/extra-typings'
import { askToExplain } from '../control/client.ts'
import { systemClock } from '../domain/clock.ts'
import { describeExplanation, remediesFor } from '../mount/explain-words.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf } from './drive-places.ts'

/** Adds `bagfs explain`. */
export function addExplain(program: Command, { output }: CommandContext): void {
  program
    .command('explain')
    .description('tell what a file is, where its bytes are, what it waits for, and what mends it')
    .argument('<path>', 'a path in a drive, also as PROFILE:PATH; it may name what was deleted')
    .option('--json', 'print JSON')
    .action(async (path, { json = false }) => {
      const { drive, names, called } = await findDriveOf(path)
      const told = await askToExplain(drive.socketPath, names)
      const { mountpoint, profile, status } = drive
      const telling = {
        ...{ mountpoint, called, nowMs: systemClock.now() },
        ...(profile === undefined ? {} : { profile }),
        cacheBytes: status.cache.maxBytes,
      }
      if (json) output.json({ version: 1, ...told, toDo: remediesFor(told, telling) })
      else for (const line of describeExplanation(told, telling)) output.line(line)
    })
}
