import { Option, type Command } from '@commander-js/extra-typings'
import type { DriveStatus } from '../control/protocol.ts'
import { systemClock } from '../domain/clock.ts'
import type { CommandContext } from './context.ts'
import { describeDead, findOwing, findRemains, type DeadDrive } from './dead-drives.ts'
import { absoluteMountpoint, findDrives, noDrive } from './drive-places.ts'
import type { Output } from './output.ts'
import { describeStatus } from '../mount/status-words.ts'

/** Adds `bagfs status`. */
export function addStatus(program: Command, context: CommandContext): void {
  const { output } = context
  program
    .command('status')
    .description('tell how mounted drives are; fails (1) when something could not be stored')
    .argument('[mountpoint]', 'one drive (default: all)')
    .option('--json', 'print JSON')
    .addOption(
      new Option('--web', 'show one drive as a page in the browser, until Ctrl-C').conflicts(
        'json',
      ),
    )
    .action(async (path, { json = false, web }) => {
      if (web === true) {
        // Loaded here: what serves a page takes longer to load than the status to tell.
        const { showStatusPage } = await import('./status-page.ts')
        await showStatusPage(context, path)
        return
      }
      const mountpoint = path === undefined ? undefined : await absoluteMountpoint(path)
      const { live, dead } = await findDrives(mountpoint)
      const known = await findRemains(dead)
      const isLost = mountpoint !== undefined && live.length + known.length === 0
      const remains = isLost ? await findOwing(mountpoint) : known
      if (isLost && remains.length === 0) throw noDrive(mountpoint)
      const all = live.map(({ status }) => status)
      if (json) tellJson(output, all, remains, { one: mountpoint !== undefined })
      else tell(output, all, remains)
      if (remains.length > 0 || all.some(hasFailed)) process.exitCode = 1
    })
}

function tell(output: Output, all: readonly DriveStatus[], remains: readonly DeadDrive[]): void {
  const now = systemClock.now()
  const texts = [
    ...all.map((status) => describeStatus(status, now).trimEnd()),
    ...remains.map((drive) => describeDead(drive, now)),
  ]
  if (texts.length === 0) output.note('No drive is mounted.')
  else for (const line of texts.join('\n\n').split('\n')) output.line(line)
}

/** Drives that do not answer have no status: of these it is said only that there are some. */
function tellJson(
  output: Output,
  all: readonly DriveStatus[],
  remains: readonly DeadDrive[],
  { one }: { readonly one: boolean },
): void {
  const [first] = all
  if (!one) output.json(all)
  else if (first !== undefined) output.json(first)
  for (const drive of remains) output.note(describeDead(drive, systemClock.now()))
}

function hasFailed({ outbox }: DriveStatus): boolean {
  return outbox.some(({ failure }) => failure !== undefined)
}
