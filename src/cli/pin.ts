import type { Command } from '@commander-js/extra-typings'
import { askToPin } from '../control/client.ts'
import { DriveError } from '../domain/errors.ts'
import { describePin, describePinState } from '../mount/pin-words.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf, findLiveDrive, findLiveDrives } from './drive-places.ts'
import { NO_SPACE } from './errors.ts'
import type { Output } from './output.ts'

/** Adds `bagfs pin`. */
export function addPin(program: Command, { output }: CommandContext): void {
  program
    .command('pin')
    .description('keep files and folders on this machine, also when they change elsewhere')
    .argument(
      '[path...]',
      'files and folders in drives, also as PROFILE:PATH; with --list drives (default: all)',
    )
    .option('--list', 'list what is pinned, and how much of it is here')
    .option('--json', 'print the list as JSON')
    .action(async (paths, { list = false, json = false }) => {
      if (list || json) await listPins(output, paths, { json })
      else if (paths.length > 0) for (const path of paths) await pinPath(output, path)
      else {
        throw new DriveError('usage', 'Say what to pin: a file or a folder in a drive.', {
          hint: 'What is pinned: bagfs pin --list.',
        })
      }
    })
}

async function pinPath(output: Output, path: string): Promise<void> {
  const { drive, names } = await findDriveOf(path)
  const pin = await askToPin(drive.socketPath, names)
  if (names.length > 1) {
    output.note(`${path} is in the folder ${pin.name}, which is one bag: all of it is pinned.`)
  }
  output.line(`${pin.name}: pinned; ${describePinState(pin, drive.status.cache.maxBytes)}`)
  if (pin.state === 'no-room') process.exitCode = NO_SPACE
}

async function listPins(
  output: Output,
  mountpoints: readonly string[],
  { json }: { readonly json: boolean },
): Promise<void> {
  const drives =
    mountpoints.length === 0
      ? await findLiveDrives()
      : await Promise.all(mountpoints.map(findLiveDrive))
  const all = drives.map(({ mountpoint, status: { pins = [], cache } }) => {
    return { mountpoint, pins, maxBytes: cache.maxBytes }
  })
  if (json) {
    output.json(all.map(({ mountpoint, pins }) => ({ mountpoint, pins })))
    return
  }
  for (const { mountpoint, pins, maxBytes } of all) {
    if (pins.length === 0) continue
    output.line(`${mountpoint}:`)
    for (const pin of pins) output.line(`  ${describePin(pin, maxBytes)}`)
  }
  if (drives.length === 0) output.note('No drive is mounted.')
  else if (all.every(({ pins }) => pins.length === 0)) output.note('Nothing is pinned.')
}
