import { access, readlink } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { ifThere } from '../disk/if-there.ts'
import { hasProcess } from '../disk/process-stat.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { CommandContext } from './context.ts'
import { knownStateDirs } from './drive-dirs.ts'
import { findNamed } from './drive-names.ts'
import { findOneDrive, insideDrive } from './drive-places.ts'
import { inLocalTime } from './log-times.ts'
import { mountAgain } from './mount-again.ts'
import { mountLogPath } from './mount-log.ts'
import { readLog } from './read-log.ts'

const LOOK_EVERY_MS = 250
/** When none is mounted. */
const OF_ENDED =
  'The log of a drive that has ended is found by its mountpoint: bagfs log MOUNTPOINT.'

/** Adds `bagfs log`. */
export function addLog(program: Command, { output, environment }: CommandContext): void {
  program
    .command('log')
    .description('print the log of a drive that runs in the background, or ran')
    .argument(
      '[mountpoint]',
      'of the drive, or its PROFILE (default: the only one that is mounted)',
    )
    .option('-f, --follow', 'go on with what is added, until Ctrl-C')
    .option('--state-dir <dir>', 'the state directory that it was mounted with')
    .action(async (given, { follow = false, stateDir }) => {
      const mountpoint =
        given === undefined
          ? (await findOneDrive(undefined, OF_ENDED)).mountpoint
          : (await findNamed(given)).mountpoint
      const roots = stateDir === undefined ? await knownStateDirs(environment) : [resolve(stateDir)]
      const path = await findLog(mountpoint, roots)
      const pause = (): Promise<void> => systemClock.sleep(LOOK_EVERY_MS)
      const killed = await killedAt(mountpoint)
      await output.pipe(inLocalTime(readLog(path, follow ? pause : undefined)))
      if (killed !== undefined) output.note(killed)
    })
}

/** A drive that was killed could not write it down. */
async function killedAt(mountpoint: string): Promise<string | undefined> {
  const known = await new DriveRegistry(findRegistryDirs()).find(mountpoint)
  if (known === undefined || hasProcess(known.pid)) return undefined
  return `The drive ended without leaving. Mount it again: ${mountAgain(known)}`
}

/** A drive that hangs is not asked: its log may tell why. */
async function findLog(mountpoint: string, roots: readonly string[]): Promise<string> {
  const registry = new DriveRegistry(findRegistryDirs())
  const known = await registry.find(mountpoint)
  const drives = [known, ...(await registry.listFormer(mountpoint))]
  const own = drives.flatMap((drive) => drive?.stateDir ?? []).map((stateDir) => dirname(stateDir))
  const places = [...own, ...roots].map((root) => mountLogPath(root, mountpoint))
  const target = known === undefined ? undefined : await stderrOf(known)
  // An earlier mount may have left a log that is not of this process.
  const possible = target === undefined ? places : places.filter((path) => path === target)
  for (const path of possible) {
    if ((await ifThere(access(path).then(() => true))) === true) return path
  }
  if (target === undefined) {
    const inside = await insideDrive(mountpoint)
    if (inside !== undefined) throw inside
    throw new DriveError('not-found', `There is no log of a drive at ${mountpoint}.`, {
      hint: 'Only drives in the background have one; --state-dir names another place of logs.',
    })
  }
  throw new DriveError('not-found', `The drive at ${mountpoint} has no log of its own.`, {
    hint: 'It runs in the foreground: look where it was started. What systemd started is in journalctl.',
  })
}

/** Where its process logs to; undefined when that has ended. */
function stderrOf({ pid }: RunningDrive): Promise<string | undefined> {
  return ifThere(readlink(`/proc/${pid}/fd/2`))
}
