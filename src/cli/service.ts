import { mkdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Argument, type Command } from '@commander-js/extra-typings'
import { listPathVariables } from '../config/paths.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { isProfileName } from '../profiles/profile.ts'
import { chooseOptions } from '../profiles/choose-options.ts'
import type { CommandContext } from './context.ts'
import { findUnits, unitDirectory } from './drive-units.ts'
import { parseTarget } from './mount-target.ts'
import { planMount } from './plan-mount.ts'
import { systemctl } from './systemctl.ts'
import { V8_ARGUMENTS } from '../mount/tune-v8.ts'
import { unitName, unitText, type DriveUnit } from './systemd-unit.ts'

const ACTIONS = ['enable', 'disable', 'status'] as const

const AFTER_HELP = `
  enable [PROFILE:]MOUNTPOINT   mount it now and whenever you log in (systemd); its options are those of the profile
  disable MOUNTPOINT|PROFILE    unmount it when everything is stored, and let it be
  status [MOUNTPOINT|PROFILE]   tell how these drives are; fails (1) when one is not mounted

With loginctl enable-linger the drives are there from the start of the machine, before you log in.`

/** Adds `bagfs service`. */
export function addService(program: Command, context: CommandContext): void {
  program
    .command('service')
    .description('let drives come back by themselves, after a reboot too')
    .addArgument(new Argument('<what>', 'what to do').choices(ACTIONS))
    .argument('[mountpoint]', 'the drive; after PROFILE: the account of that name')
    .argument('[directory]', 'the drive, where its PROFILE is a word of its own')
    .option('--json', 'print the status as JSON')
    .addHelpText('after', AFTER_HELP)
    .action(async (what, first, directory, { json = false }) => {
      const target = joinTarget(first, directory)
      if (what === 'status') await tellStatus(context, target, json)
      else if (target === undefined)
        throw new DriveError('usage', 'Which drive? Name its directory.')
      else if (what === 'enable') await enable(context, target)
      else await disable(context, target)
    })
}

/** `work ~/drive` is what `work:~/drive` is. */
function joinTarget(first: string | undefined, directory: string | undefined): string | undefined {
  if (first === undefined || directory === undefined) return first
  if (isProfileName(first)) return `${first}:${directory}`
  throw new DriveError('usage', 'Before the directory the name of a profile has to stand.', {
    hint: 'bagfs profiles lists them.',
  })
}

/** The unit of a drive, once all that a mount refuses was looked at, as that process will see it. */
async function enable(context: CommandContext, target: string): Promise<void> {
  const { output, environment } = context
  const { profile: named, mountpoint } = parseTarget(target)
  // systemd has none of the variables of this shell.
  const bare = { options: {}, searchPath: environment.searchPath }
  const profile = named ?? environment.profile
  const chosen = await chooseOptions({ environment: bare, flags: {}, profile })
  if (chosen.profile === undefined) {
    throw new DriveError('usage', 'Which account? A drive that comes back needs a profile.', {
      hint: 'Log in once: bagfs login. Or name the profile: bagfs service enable PROFILE:MOUNTPOINT',
    })
  }
  const { drive } = await planMount({ output, environment: bare }, mountpoint, chosen)
  const unit = { profile: chosen.profile.name, mountpoint: drive.mountpoint }
  const path = await writeUnit(unit)
  await systemctl('daemon-reload')
    .then(() => systemctl('enable', '--now', basename(path)))
    .catch((error: unknown) => undo(path, error))
  output.note(`Mounted at ${unit.mountpoint}, and whenever you log in: ${path}`)
  output.note('From the start of the machine, before you log in: loginctl enable-linger')
  if (chosen.token?.from === 'place' && chosen.token.place.kind === 'keyring') {
    output.warn(
      `the token is in the keyring, which nothing unlocks before you log in: bagfs login ${unit.profile} --no-keyring`,
    )
  }
}

async function writeUnit(unit: DriveUnit): Promise<string> {
  if (/[\n\r]/.test(unit.mountpoint)) {
    throw new DriveError('usage', 'A path with a line end in it cannot be that of a service.')
  }
  const path = join(unitDirectory(), unitName(unit.mountpoint))
  const [, program = ''] = process.argv
  const settings = {
    program: [process.execPath, ...V8_ARGUMENTS, program],
    variables: listPathVariables(),
  }
  try {
    await mkdir(unitDirectory(), { recursive: true })
    await writeFileAtomic(path, unitText(unit, settings), { durable: true })
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
  return path
}

/** A drive that does not come up is not tried again at each login. */
async function undo(path: string, error: unknown): Promise<never> {
  const unit = basename(path)
  await systemctl('disable', '--now', unit).catch(ofSystemctl)
  await removeUnit(path)
  await systemctl('daemon-reload').catch(ofSystemctl)
  if (!(error instanceof DriveError)) throw error
  const hint = `What the drive said: journalctl --user -u ${unit}. ${error.facts.hint ?? ''}`
  throw new DriveError(error.code, error.message, { ...error.facts, hint: hint.trim() })
}

/** Where systemd does not answer it has enabled nothing, and the first error tells of it. */
function ofSystemctl(error: unknown): void {
  if (!(error instanceof DriveError)) throw error
}

async function removeUnit(path: string): Promise<void> {
  try {
    await rm(path, { force: true })
  } catch (error) {
    throw fromFileSystem(error, `Removing ${path}`)
  }
}

async function disable({ output }: CommandContext, target: string): Promise<void> {
  const [unit, ...others] = await findUnits(target)
  if (unit === undefined) throw noService(target)
  if (others.length > 0) {
    const all = [unit, ...others].map(({ mountpoint }) => mountpoint).join(', ')
    throw new DriveError('usage', `Which drive? ${target} has several: ${all}`, {
      hint: 'Name its mountpoint.',
    })
  }
  const path = join(unitDirectory(), unitName(unit.mountpoint))
  await systemctl('disable', '--now', basename(path))
  await removeUnit(path)
  await systemctl('daemon-reload')
  output.note(`${unit.mountpoint} is unmounted and does not come back by itself.`)
}

async function tellStatus(
  { output }: CommandContext,
  target: string | undefined,
  json: boolean,
): Promise<void> {
  const units = await findUnits(target)
  if (target !== undefined && units.length === 0) throw noService(target)
  const rows = await Promise.all(units.map(toRow))
  if (json) output.json(rows)
  else if (rows.length === 0) {
    output.note('No drive comes back by itself. Let one: bagfs service enable [PROFILE:]MOUNTPOINT')
  } else {
    for (const { mountpoint, profile, state, start, says } of rows) {
      output.line(`${mountpoint} (${profile}): ${state}, ${start}${says === '' ? '' : `. ${says}`}`)
    }
  }
  if (rows.some(({ state }) => state !== 'active')) process.exitCode = 1
}

interface ServiceRow extends DriveUnit {
  /** As systemd calls it: `active`, `failed`, `activating`. */
  readonly state: string
  /** `enabled` where it comes back. */
  readonly start: string
  /** The drive's own words; empty where no process of it runs. */
  readonly says: string
}

async function toRow(unit: DriveUnit): Promise<ServiceRow> {
  const properties = ['ActiveState', 'UnitFileState', 'StatusText']
  const shown = await systemctl('show', '-p', properties.join(','), unitName(unit.mountpoint))
  const read = (name: string): string =>
    new RegExp(`^${name}=(.*)$`, 'm').exec(shown)?.[1]?.trim() ?? ''
  const [state, start, says] = properties.map(read)
  // systemd keeps the words of a drive that was killed.
  const isThere = state === 'active' || state === 'deactivating'
  return { ...unit, state: state ?? '', start: start ?? '', says: isThere ? (says ?? '') : '' }
}

function noService(target: string): DriveError {
  return new DriveError('usage', `No drive at ${target} comes back by itself.`, {
    hint: 'bagfs service status lists those that do.',
  })
}
