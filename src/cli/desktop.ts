import { mkdir } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { Argument, type Command } from '@commander-js/extra-typings'
import { listPathVariables } from '../config/paths.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { DriveError, fromFileSystem, isDriveError } from '../domain/errors.ts'
import { silentLogger } from '../domain/logger.ts'
import { notifySend } from '../mount/notify.ts'
import { chooseOptions } from '../profiles/choose-options.ts'
import { readProfiles } from '../profiles/config-file.ts'
import type { CommandContext } from './context.ts'
import { desktopEntry } from './desktop-entry.ts'
import { entryPath, removeEntry } from './menu-entry.ts'
import { findNamed, splitNamed } from './drive-names.ts'
import { findDrives } from './drive-places.ts'
import { toFailure, type CommandFailure } from './errors.ts'
import { mountInBackground } from './mount-background.ts'
import { parseTarget } from './mount-target.ts'
import { openByDesktop } from './open-by-desktop.ts'
import { planMount } from './plan-mount.ts'

const ACTIONS = ['install', 'remove', 'open'] as const

const AFTER_HELP = `
  install [PROFILE:]MOUNTPOINT  put the drive into the menu of the desktop: a click mounts it and opens it
  remove PROFILE[:MOUNTPOINT]   take it out of the menu
  open [PROFILE:]MOUNTPOINT     what the click does: mount it where it is not mounted, and open it in the file manager`

/** Adds `bagfs desktop`. */
export function addDesktop(program: Command, context: CommandContext): void {
  program
    .command('desktop')
    .description('mount a drive by a click')
    .addArgument(new Argument('<what>', 'what to do').choices(ACTIONS))
    .argument(
      '<drive>',
      'its directory, after PROFILE: the account of that name; remove: the profile is enough',
    )
    .addHelpText('after', AFTER_HELP)
    .action(async (what, target) => {
      if (what === 'install') await install(context, target)
      else if (what === 'remove') await remove(context, target)
      else await open(context, target)
    })
}

async function install({ environment, output }: CommandContext, target: string): Promise<void> {
  const { profile: named, mountpoint: typed } = await findTarget('install', target)
  const { profile } = await chooseOptions({ environment, flags: {}, profile: named })
  if (profile === undefined) {
    throw new DriveError('usage', 'Which account? A drive in the menu needs a profile.', {
      hint: 'Log in once: bagfs login. Or name the profile: bagfs desktop install PROFILE:MOUNTPOINT',
    })
  }
  const drive = { profile: profile.name, mountpoint: resolve(typed) }
  if (/[\n\r]/.test(drive.mountpoint)) {
    throw new DriveError('usage', 'A path with a line end in it cannot be that of a menu entry.')
  }
  const [, program = ''] = process.argv
  const settings = { program: [process.execPath, program], variables: listPathVariables() }
  const path = entryPath(drive.profile)
  try {
    await mkdir(dirname(path), { recursive: true })
    await writeFileAtomic(path, desktopEntry(drive, settings), { durable: false })
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
  output.note(
    `In the menu as "${drive.profile} (bagfs)", which mounts ${drive.mountpoint}: ${path}`,
  )
}

/** The name of a profile alone means the drive that it has, or had last; `./work` is a directory of this name. */
async function findTarget(
  what: 'install' | 'open',
  target: string,
): Promise<ReturnType<typeof parseTarget>> {
  const { profile, rest = '' } = splitNamed(target) ?? {}
  const isProfile = (await readProfiles()).all.some(({ name }) => name === profile)
  if (profile === undefined || rest !== '' || !isProfile) return parseTarget(target)
  try {
    const { mountpoint } = await findNamed(`${profile}:`)
    return { profile, mountpoint }
  } catch (error) {
    if (!isDriveError(error, 'usage')) throw error
    throw new DriveError('usage', error.message, {
      hint: `Name its directory, too: bagfs desktop ${what} ${profile}:MOUNTPOINT`,
    })
  }
}

async function remove({ output }: CommandContext, target: string): Promise<void> {
  const { profile = target } = parseTarget(target)
  if (!(await removeEntry(profile))) {
    throw new DriveError('usage', `No drive of a profile ${profile} is in the menu.`, {
      hint: 'Name its profile; bagfs profiles lists them.',
    })
  }
  output.note(`${profile} is out of the menu.`)
}

/** Behind a click there is no terminal: what goes wrong is told by a notification, too. */
async function open(context: CommandContext, target: string): Promise<void> {
  const tell = (sentence: string): void => {
    notifySend(silentLogger)('The drive cannot be opened', sentence)
    context.output.note(sentence)
  }
  const tellFailure = ({ text, exitCode }: CommandFailure): void => {
    tell(text)
    process.exitCode = exitCode
  }
  try {
    const drive = await findTarget('open', target)
    const failure = await mountIfNotThere(context, drive)
    if (failure === undefined) openByDesktop(resolve(drive.mountpoint), tell)
    else tellFailure(failure)
  } catch (error) {
    tellFailure(toFailure(error))
  }
}

async function mountIfNotThere(
  context: CommandContext,
  { profile, mountpoint }: ReturnType<typeof parseTarget>,
): Promise<CommandFailure | undefined> {
  const { live } = await findDrives(resolve(mountpoint))
  if (live.length > 0) return undefined
  const { environment } = context
  const chosen = await chooseOptions({ environment, flags: {}, profile })
  const job = await planMount(context, mountpoint, chosen, () => Promise.resolve(true))
  const { report } = await mountInBackground(job)
  return report.type === 'failed' ? report.failure : undefined
}
