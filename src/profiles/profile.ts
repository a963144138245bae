import { parseWrittenValue, type MountOptionKey } from '../config/options.ts'
import type { TokenPlace } from '../config/token.ts'
import { DriveError } from '../domain/errors.ts'

/** An option as the config file has it. */
export interface WrittenOption {
  readonly text: string
  readonly line: number
}

/** An account by name, with the options that its drives have. */
export interface Profile {
  readonly name: string
  /** What the service called the account at the last login. */
  readonly account?: string
  /** True when the desktop's keyring has its token. */
  readonly usesKeyring: boolean
  readonly options: ReadonlyMap<MountOptionKey, WrittenOption>
}

/** What the config file says. */
export interface Profiles {
  /** Absolute path of the config file, which may not be there. */
  readonly path: string
  readonly all: readonly Profile[]
  /** The name after `default:`. */
  readonly defaultName?: string
}

/** No slash: what comes before the colon of `PROFILE:MOUNTPOINT` is told from a path by it. */
const NAME = /^[A-Z0-9][\w.-]{0,63}$/i

export function isProfileName(text: string): boolean {
  return NAME.test(text)
}

/** Rejects with `usage` what can be the name of no profile. */
export function checkProfileName(name: string): string {
  if (isProfileName(name)) return name
  throw new DriveError('usage', 'This cannot be the name of a profile.', {
    hint: 'Take letters, digits, points, dashes and underscores, 64 at most, such as work.',
  })
}

/** The profile that is meant where none is named: the one after `default:`, else the only one. */
export function findDefaultProfile({ all, defaultName }: Profiles): Profile | undefined {
  if (defaultName === undefined) return all.length === 1 ? all[0] : undefined
  return all.find(({ name }) => name === defaultName)
}

/** The profile of a name; rejects with `usage` when there is none. */
export function requireProfile(profiles: Profiles, name: string): Profile {
  const found = profiles.all.find((profile) => profile.name === name)
  if (found !== undefined) return found
  const names = profiles.all.map((profile) => profile.name)
  // What is no name may be anything, also a secret at the wrong place.
  const called = isProfileName(name) ? `called ${name}` : 'of this name'
  throw new DriveError('usage', `There is no profile ${called}.`, {
    hint:
      names.length === 0
        ? 'Make one: bagfs login PROFILE'
        : `There are: ${names.join(', ')}. Another one is made by bagfs login PROFILE.`,
  })
}

/** Where the token of a profile is kept; undefined where it says nothing of one. */
export function tokenPlaceOf(profile: Profile, config: string): TokenPlace | undefined {
  const read = (key: 'tokenFile' | 'url'): string | undefined => {
    const written = profile.options.get(key)
    return written === undefined ? undefined : parseWrittenValue(key, written.text)
  }
  const path = read('tokenFile')
  if (path !== undefined) return { kind: 'file', path }
  if (!profile.usesKeyring) return undefined
  return { kind: 'keyring', profile: profile.name, config, service: read('url') ?? '' }
}
