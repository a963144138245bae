import { LAST_RESORT_TOKEN_VARIABLE, TOKEN_VARIABLE, type Environment } from '../config/env.ts'
import {
  MOUNT_OPTION_KEYS,
  optionName,
  optionVariable,
  parseWrittenValue,
  type MountFlags,
  type MountOptionKey,
} from '../config/options.ts'
import { parseServiceUrl } from '../config/service-url.ts'
import type { TokenPlace } from '../config/token.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import { readProfiles } from './config-file.ts'
import {
  findDefaultProfile,
  requireProfile,
  tokenPlaceOf,
  type Profile,
  type Profiles,
} from './profile.ts'

/** Where the value of an option comes from; the default is none of these. */
export type OptionOrigin =
  | { readonly from: 'flag' }
  | { readonly from: 'environment'; readonly variable: string }
  | { readonly from: 'profile'; readonly profile: string; readonly line: number }

/** The token that goes with the account, not read yet where it lies in a file or the keyring. */
export type ChosenToken =
  | { readonly from: 'place'; readonly place: TokenPlace }
  | { readonly from: 'environment'; readonly variable: string; readonly token: string }

/** What flags, environment and profile say together. */
export interface ChosenOptions {
  readonly options: MountFlags
  readonly origins: Readonly<Partial<Record<MountOptionKey, OptionOrigin>>>
  readonly token?: ChosenToken
  /** The profile that was asked, also where it says nothing. */
  readonly profile?: Profile
  readonly profiles: Profiles
}

export interface OptionSources {
  readonly environment: Environment
  readonly flags: MountFlags
  /** The profile that is named on the command line. */
  readonly profile?: string | undefined
}

/** One place that may say something of options. */
interface Level {
  readonly values: ReadonlyMap<MountOptionKey, MountFlags[MountOptionKey]>
  readonly originOf: (key: MountOptionKey) => OptionOrigin
  readonly token?: ChosenToken
}

/** They say who is asked for whose files, and are taken together. */
const ACCOUNT_OPTIONS: readonly MountOptionKey[] = ['url', 'local', 'tokenFile']

const CONTRADICTIONS = [
  ['local', 'url'],
  ['local', 'tokenFile'],
  ['foreground', 'background'],
  ['readOnly', 'writeBack'],
] as const

/**
 * Flags go before the environment, that before the profile. A profile that is named on the command line goes before the
 * environment as to the account: no token of one service goes to another. Of two options that contradict each other
 * the stronger place has its way; from one place, they are refused (`usage`).
 */
export async function chooseOptions(sources: OptionSources): Promise<ChosenOptions> {
  const { environment, flags } = sources
  const profiles = await readProfiles()
  const name = sources.profile ?? environment.profile
  const profile = name === undefined ? findDefaultProfile(profiles) : requireProfile(profiles, name)
  const [typed, written] = [flagLevel(flags), environmentLevel(environment)]
  const named = profile === undefined ? [] : [profileLevel(profile, profiles.path)]
  const levels = [typed, written, ...named]
  for (const level of levels) refuseContradictions(level)
  const forAccount = sources.profile === undefined ? levels : [typed, ...named, written]
  const taken = new Map<MountOptionKey, Level>()
  const others = MOUNT_OPTION_KEYS.filter((key) => !ACCOUNT_OPTIONS.includes(key))
  take(taken, forAccount, ['url', 'local'])
  take(taken, levels, others)
  const token = chooseToken({ taken, levels: forAccount, profileLevel: named[0], environment })
  return {
    ...collect(taken, token),
    ...(token === undefined ? {} : { token: token.value }),
    ...(profile === undefined ? {} : { profile }),
    profiles,
  }
}

function flagLevel(flags: MountFlags): Level {
  const { tokenFile } = flags
  return {
    values: new Map(MOUNT_OPTION_KEYS.flatMap((key) => given(key, flags[key]))),
    originOf: () => ({ from: 'flag' }),
    ...fileToken(tokenFile),
  }
}

function environmentLevel({ options, token }: Environment): Level {
  const values = new Map(
    MOUNT_OPTION_KEYS.flatMap((key) => {
      const text = options[key]
      return text === undefined ? [] : given(key, parseVariable(key, text))
    }),
  )
  const ofVariable: Pick<Level, 'token'> =
    token === undefined ? {} : { token: { from: 'environment', variable: TOKEN_VARIABLE, token } }
  return {
    values,
    originOf: (key) => ({ from: 'environment', variable: optionVariable(key) }),
    ...ofVariable,
    ...fileToken(values.get('tokenFile')),
  }
}

function profileLevel(profile: Profile, config: string): Level {
  const values = new Map(
    [...profile.options].flatMap(([key, { text }]) => given(key, parseWrittenValue(key, text))),
  )
  const place = tokenPlaceOf(profile, config)
  return {
    values,
    originOf: (key) => ({
      from: 'profile',
      profile: profile.name,
      line: profile.options.get(key)?.line ?? 0,
    }),
    ...(place === undefined ? {} : { token: { from: 'place', place } }),
  }
}

type Value = MountFlags[MountOptionKey]

function given(key: MountOptionKey, value: Value): readonly (readonly [MountOptionKey, Value])[] {
  return value === undefined ? [] : [[key, value]]
}

/** The path as it was written: a token at its place is not to be taken for a path, and shown. */
function fileToken(path: Value): Pick<Level, 'token'> {
  if (typeof path !== 'string') return {}
  return { token: { from: 'place', place: { kind: 'file', path } } }
}

function parseVariable(key: MountOptionKey, text: string): Value {
  try {
    return parseWrittenValue(key, text)
  } catch (error) {
    if (!isDriveError(error, 'usage')) throw error
    const { hint } = error.facts
    throw new DriveError(
      'usage',
      `${optionVariable(key)}: ${error.message}`,
      hint === undefined ? {} : { hint },
    )
  }
}

function refuseContradictions({ values, originOf }: Level): void {
  for (const [one, other] of CONTRADICTIONS) {
    if (!isOn(values.get(one)) || !isOn(values.get(other))) continue
    const [first, second] = [one, other].map((key) => describeOption(key, originOf(key)))
    throw new DriveError('usage', `${first ?? ''} and ${second ?? ''} do not go together.`)
  }
}

function isOn(value: Value): boolean {
  return value !== undefined && value !== false
}

/** As the person wrote it at that place. */
function describeOption(key: MountOptionKey, origin: OptionOrigin): string {
  if (origin.from === 'flag') return `--${optionName(key)}`
  if (origin.from === 'environment') return origin.variable
  return `${optionName(key)} of profile ${origin.profile}`
}

/** Each option from the first level that says something of it, unless that contradicts a level before. */
function take(
  taken: Map<MountOptionKey, Level>,
  levels: readonly Level[],
  keys: readonly MountOptionKey[],
): void {
  for (const level of levels) {
    for (const key of keys) {
      const value = level.values.get(key)
      if (value === undefined || taken.has(key)) continue
      if (isOn(value) && isContradicted(key, level, taken)) continue
      taken.set(key, level)
    }
  }
}

function isContradicted(
  key: MountOptionKey,
  level: Level,
  taken: ReadonlyMap<MountOptionKey, Level>,
): boolean {
  return CONTRADICTIONS.some(([one, other]) => {
    if (key !== one && key !== other) return false
    const opposite = key === one ? other : one
    const by = taken.get(opposite)
    return by !== undefined && by !== level && isOn(by.values.get(opposite))
  })
}

interface TokenChoice {
  readonly value: ChosenToken
  /** Undefined for the token of the last resort. */
  readonly level?: Level
}

function chooseToken({
  taken,
  levels,
  profileLevel,
  environment,
}: {
  readonly taken: ReadonlyMap<MountOptionKey, Level>
  readonly levels: readonly Level[]
  readonly profileLevel: Level | undefined
  readonly environment: Environment
}): TokenChoice | undefined {
  const url = taken.get('url')?.values.get('url')
  const local = taken.get('local')
  if (local !== undefined) {
    refuseTokenOfLocal(local, levels)
    return undefined
  }
  for (const level of levels) {
    const isOfAnother = level === profileLevel && !isSameService(level.values.get('url'), url)
    if (level.token !== undefined && !isOfAnother) return { value: level.token, level }
  }
  const { lastResortToken: token } = environment
  if (token === undefined) return undefined
  return { value: { from: 'environment', variable: LAST_RESORT_TOKEN_VARIABLE, token } }
}

/** The embedded service has a token of its own: one that is given for it was meant for another. */
function refuseTokenOfLocal(local: Level, levels: readonly Level[]): void {
  const before = levels.slice(0, levels.indexOf(local))
  const level = before.find(({ values }) => values.has('tokenFile'))
  if (level === undefined) return
  const given = describeOption('tokenFile', level.originOf('tokenFile'))
  const embedded = describeOption('local', local.originOf('local'))
  throw new DriveError('usage', `${given} and ${embedded} do not go together.`)
}

function isSameService(one: Value, other: Value): boolean {
  if (typeof one !== 'string' || typeof other !== 'string') return false
  return parseServiceUrl(one) === parseServiceUrl(other)
}

function collect(
  taken: ReadonlyMap<MountOptionKey, Level>,
  token: TokenChoice | undefined,
): Pick<ChosenOptions, 'options' | 'origins'> {
  const all = new Map(taken)
  const { value, level } = token ?? {}
  if (level !== undefined && value?.from === 'place' && value.place.kind === 'file') {
    all.set('tokenFile', level)
  }
  const pairs = [...all]
  return {
    options: Object.fromEntries(pairs.map(([key, { values }]) => [key, values.get(key)])),
    origins: Object.fromEntries(pairs.map(([key, { originOf }]) => [key, originOf(key)])),
  }
}
