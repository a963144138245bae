import type { Command } from '@commander-js/extra-typings'
import { systemClock } from '../domain/clock.ts'
import type { CommandContext } from './context.ts'
import { findLiveDrive, findLiveDrives } from './drive-places.ts'
import { describeStatus } from './status-words.ts'

/** Adds `bagfs status`. */
export function addStatus(program: Command, { output }: CommandContext): void {
  program
    .command('status')
    .description('tell how mounted drives are; fails (1) when something could not be stored')
    .argument('[mountpoint]', 'one drive (default: all)')
    .option('--json', 'print JSON')
    .action(async (mountpoint, { json = false }) => {
      const drives =
        mountpoint === undefined ? await findLiveDrives() : [await findLiveDrive(mountpoint)]
      const all = drives.map(({ status }) => status)
      if (json) output.json(mountpoint === undefined ? all : all[0])
      else if (all.length === 0) output.note('No drive is mounted.')
      else printText(output, all)
      const hasFailed = all.some(({ outbox }) => outbox.some((item) => item.failure !== undefined))
      if (hasFailed) process.exitCode = 1
    })
}

function printText(
  output: CommandContext['output'],
  all: readonly Parameters<typeof describeStatus>[0][],
): void {
  const texts = all.map((status) => describeStatus(status, systemClock.now()).trimEnd())
  for (const line of texts.join('\n\n').split('\n')) output.line(line)
}
