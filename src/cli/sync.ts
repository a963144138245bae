import { lstat } from 'node:fs/promises'
import type { Command } from '@commander-js/extra-typings'
import { askToSync } from '../control/client.ts'
import type { Synced, WireItem } from '../control/protocol.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import type { CommandContext } from './context.ts'
import { describeDead, findRemains, isOwing } from './dead-drives.ts'
import { findDriveOf, findDrives, type LiveDrive, type PathInDrive } from './drive-places.ts'
import { isMissing } from './mount-paths.ts'
import type { Output } from './output.ts'

/** Adds `bagfs sync`. */
export function addSync(program: Command, { output }: CommandContext): void {
  program
    .command('sync')
    .description('send what was written and wait until the service has it')
    .argument(
      '[path]',
      'a drive, or a file or folder in one, also as PROFILE:PATH (default: all drives)',
    )
    .action(async (path) => {
      const found = path === undefined ? undefined : await findDriveOf(path)
      if (found !== undefined) await mustBeThere(found)
      const { live, dead } =
        found === undefined ? await findDrives() : { live: [found.drive], dead: [] }
      const left: WireItem[] = []
      for (const drive of live) {
        const synced = await sync(output, drive, found?.names[0])
        left.push(...synced.left)
        for (const each of synced.beingWritten) output.note(describeUnclosed(each))
      }
      tellLeft(output, left, found?.called)
      const owing = (await findRemains(dead)).filter((each) => isOwing(each) || each.isUnreached)
      for (const drive of owing) output.note(describeDead(drive, systemClock.now()))
      if (left.length + owing.length > 0) process.exitCode = 1
    })
}

/** Of an outage the first few tell as much as all. */
const MOST_LINES = 10

function tellLeft(output: Output, left: readonly WireItem[], called: string | undefined): void {
  if (left.length === 0) return
  for (const { name, state } of left.slice(0, MOST_LINES)) output.note(`bagfs: ${name}: ${state}`)
  const more = left.length - MOST_LINES
  const drive = called === undefined ? '' : ` ${shellQuote(called)}`
  if (more > 0) output.note(`bagfs: and ${more} more: bagfs outbox${drive} lists all.`)
  const forUser = left.some(({ failure }) => failure?.waitsForUser === true)
  output.note(
    forUser
      ? `  Mend what it says, then: bagfs outbox retry${drive}. A copy of it: bagfs outbox save${drive}`
      : `  All of it is kept and tried again by itself: bagfs status${drive} tells how that goes.`,
  )
}

function describeUnclosed(path: string): string {
  return `bagfs: ${path}: a program is writing it; it is sent when the program closes it`
}

/** What was deleted may be there no more, and its delete still waits. */
async function mustBeThere({ drive, names, path }: PathInDrive): Promise<void> {
  if (drive.status.outbox.some((item) => item.name === names[0])) return
  try {
    await lstat(path)
  } catch (error) {
    if (!isMissing(error)) return
    throw new DriveError('not-found', `${path} does not exist.`)
  }
}

async function sync(output: Output, drive: LiveDrive, name: string | undefined): Promise<Synced> {
  let shown = 0
  const onTerminal = output.terminal !== undefined
  try {
    return await askToSync(drive.socketPath, {
      ...(name === undefined ? {} : { name }),
      onProgress: (waiting) => {
        if (!onTerminal || waiting === shown) return
        shown = waiting
        const changes = waiting === 1 ? '1 change' : `${waiting} changes`
        output.raw('stderr', `\r\u001b[K${changes} to send.`)
      },
    })
  } finally {
    if (onTerminal && shown !== 0) output.raw('stderr', '\r\u001b[K')
  }
}
