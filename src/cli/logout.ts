import type { Command } from '@commander-js/extra-typings'
import { optionName } from '../config/options.ts'
import { DriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { changeProfiles, readProfiles } from '../profiles/config-file.ts'
import {
  findDefaultProfile,
  requireProfile,
  tokenPlaceOf,
  type Profile,
  type Profiles,
} from '../profiles/profile.ts'
import { describeTokenPlace, forgetToken, isOwnTokenFile } from '../profiles/tokens.ts'
import type { CommandContext } from './context.ts'
import { findUnits } from './drive-units.ts'
import { removeEntry } from './menu-entry.ts'
import type { Output } from './output.ts'
import { describeUse, findUse, type ProfileUse } from './profile-use.ts'
import type { DriveUnit } from './systemd-unit.ts'

/** Adds `bagfs logout`. */
export function addLogout(program: Command, context: CommandContext): void {
  program
    .command('logout')
    .description('forget an account and its token; the files of the account stay at the service')
    .argument('[profile]', 'name of the account (default: the default one)')
    .option('--force', 'also while a drive is mounted or changes wait, which stay on this machine')
    .action(async (name, { force = false }) => {
      const profiles = await readProfiles()
      const profile = name === undefined ? theDefault(profiles) : requireProfile(profiles, name)
      const use = await findUse(context.environment, profile)
      const units = (await findUnits()).filter((unit) => unit.profile === profile.name)
      const words = [describeUse(use), ...units.map(describeUnit)]
        .filter((each) => each !== '')
        .join(' ')
      if (words !== '' && !force) throw inUse(profile, use, words)
      await logOut(context.output, profiles, profile)
      if (words !== '') context.output.note([words, ...use.keptIn.map(keptNote)].join(' '))
    })
}

function theDefault(profiles: Profiles): Profile {
  const found = findDefaultProfile(profiles)
  if (found !== undefined) return found
  const names = profiles.all.map(({ name }) => name).join(', ')
  throw new DriveError('usage', names === '' ? 'No account is logged in.' : 'Which account?', {
    ...(names === '' ? {} : { hint: `Name one of ${names}.` }),
  })
}

function keptNote(stateDir: string): string {
  return `They are kept in ${stateDir}.`
}

/** It fails at each login once its profile is gone. */
function describeUnit({ mountpoint }: DriveUnit): string {
  return `systemd mounts it at ${mountpoint} (bagfs service disable ${shellQuote(mountpoint)}).`
}

function inUse({ name }: Profile, use: ProfileUse, words: string): DriveError {
  return new DriveError('busy', `Profile ${name} is in use. ${words}`, {
    hint: [...howToEnd(name, use), WITH_FORCE].join(' '),
  })
}

const WITH_FORCE =
  'With --force what waits stays on this machine until the same account is mounted again.'

/** By mountpoint: another profile of the same account may have mounted the drive. */
function howToEnd(name: string, { mountpoints, waiting }: ProfileUse): readonly string[] {
  if (mountpoints.length > 0) {
    return mountpoints
      .map((mountpoint) => shellQuote(mountpoint))
      .map(
        (drive) =>
          `bagfs umount ${drive} waits until all is stored; bagfs outbox ${drive} tells what waits.`,
      )
  }
  if (waiting.length === 0) return []
  return [`bagfs mount ${name}:MOUNTPOINT sends what waits; bagfs outbox tells what it is.`]
}

async function logOut(output: Output, profiles: Profiles, profile: Profile): Promise<void> {
  const { name, options } = profile
  // First, so that a profile is never left without what it says of its token.
  const place = tokenPlaceOf(profile, profiles.path)
  if (place !== undefined && !(await forgetToken(place))) {
    throw new DriveError(
      'local-io',
      `The token of ${name} could not be taken out of the keyring.`,
      {
        hint: `Unlock the keyring, then try again. Or keep the token in a file first: bagfs login ${name} --no-keyring`,
      },
    )
  }
  await changeProfiles((config) => {
    config.removeProfile(name)
  })
  output.note(`Logged out of ${name}.`)
  if (place?.kind === 'file' && !isOwnTokenFile(place.path)) {
    output.note(`The token is still in ${describeTokenPlace(place)}.`)
  }
  if (await removeEntry(name)) output.note('Its entry is out of the menu of the desktop.')
  const own = [...options].filter(([key]) => !['url', 'local', 'tokenFile'].includes(key))
  if (own.length > 0) {
    const gone = own.map(([key, { text }]) => `${optionName(key)}: ${text}`).join(', ')
    output.note(`With it went from ${profiles.path}: ${gone}`)
  }
  const left = profiles.all.filter((each) => each !== profile).map((each) => each.name)
  if (profiles.defaultName === name && left.length > 1) {
    output.note(`No profile is the default now: bagfs profiles --default ${left.join('|')}`)
  }
}
