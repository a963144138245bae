import { Option, type Command } from '@commander-js/extra-typings'
import type { DriveStatus } from '../control/protocol.ts'
import { systemClock } from '../domain/clock.ts'
import type { CommandContext } from './context.ts'
import { clearDead, describeDead, findOwing, findRemains, type DeadDrive } from './dead-drives.ts'
import { findNamed } from './drive-names.ts'
import { lookAtDrives, noDrive } from './drive-places.ts'
import { describeHung } from './hung-drives.ts'
import type { Output } from './output.ts'
import { lookForSpeeds, showAgain, StatusTexts } from './watch-status.ts'

/** A drive that answers does so at once: more than a person wants to wait for one that hangs. */
const ANSWER_LIMIT_MS = 1_500
const NONE = 'No drive is mounted.'

/** Adds `bagfs status`. */
export function addStatus(program: Command, context: CommandContext): void {
  const { output } = context
  program
    .command('status')
    .description('tell how mounted drives are; fails (1) when something could not be stored')
    .argument('[mountpoint]', 'one drive, or its PROFILE (default: all)')
    .option('--json', 'print JSON')
    .addOption(
      new Option('--web', 'show one drive as a page in the browser, until Ctrl-C').conflicts(
        'json',
      ),
    )
    .addOption(
      new Option('--watch', 'show it anew each second, until Ctrl-C').conflicts(['json', 'web']),
    )
    .action(async (path, { json = false, web, watch }) => {
      if (web === true) {
        // Loaded here: what serves a page takes longer to load than the status to tell.
        const { showStatusPage } = await import('./status-page.ts')
        await showStatusPage(context, path)
        return
      }
      const mountpoint = path === undefined ? undefined : (await findNamed(path)).mountpoint
      const texts = new StatusTexts()
      if (watch === true) {
        await showAgain(output, async () => {
          const seen = await lookAt(mountpoint)
          texts.note(seen.all)
          return inWords(seen, texts) ?? NONE
        })
        return
      }
      const look = (): Promise<Seen> => lookAt(mountpoint)
      const seen = json ? await look() : await lookForSpeeds(look, texts)
      if (json) tellJson(output, seen, { one: mountpoint !== undefined })
      else tell(output, inWords(seen, texts))
      if (hasTrouble(seen)) process.exitCode = 1
    })
}

/** Drives as they are. */
interface Seen {
  readonly all: readonly DriveStatus[]
  readonly remains: readonly DeadDrive[]
  /** In words. */
  readonly hung: readonly string[]
}

async function lookAt(mountpoint: string | undefined): Promise<Seen> {
  const { live, dead, hung } = await lookAtDrives(mountpoint, ANSWER_LIMIT_MS)
  const known = await findRemains(dead)
  for (const drive of dead) {
    const hasRemains = known.some(({ mountpoint: at }) => at === drive.mountpoint)
    await clearDead(drive, { record: !hasRemains })
  }
  const isLost = mountpoint !== undefined && live.length + known.length + hung.length === 0
  const remains = isLost ? await findOwing(mountpoint) : known
  if (isLost && remains.length === 0) throw await noDrive(mountpoint)
  return {
    ...{ all: live.map(({ status }) => status), remains },
    hung: await Promise.all(hung.map(describeHung)),
  }
}

/** Undefined where there is nothing to tell of. */
function inWords({ all, hung, remains }: Seen, texts: StatusTexts): string | undefined {
  const now = systemClock.now()
  const told = [
    ...all.map((status) => texts.of(status)),
    ...hung,
    ...remains.map((drive) => describeDead(drive, now)),
  ]
  return told.length === 0 ? undefined : told.join('\n\n')
}

function tell(output: Output, text: string | undefined): void {
  if (text === undefined) output.note(NONE)
  else for (const line of text.split('\n')) output.line(line)
}

/** Drives that do not answer have no status: of these it is said only that there are some. */
function tellJson(
  output: Output,
  { all, hung, remains }: Seen,
  { one }: { readonly one: boolean },
): void {
  const [first] = all
  if (!one) output.json(all)
  else if (first !== undefined) output.json(first)
  for (const words of hung) output.note(words)
  for (const drive of remains) output.note(describeDead(drive, systemClock.now()))
}

function hasTrouble({ all, hung, remains }: Seen): boolean {
  return hung.length + remains.length > 0 || all.some(hasFailed)
}

function hasFailed({ outbox }: DriveStatus): boolean {
  return outbox.some(({ failure }) => failure !== undefined)
}
