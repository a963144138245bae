import { fstatSync } from 'node:fs'
import { MOUNT_OPTION_KEYS, optionVariable, type MountOptionKey } from './options.ts'

/** The environment variables that bagfs itself looks at. */
export interface Environment {
  /** What variables such as `BAGFS_URL` and `BAGFS_CACHE_SIZE` say of options, as it is written. */
  readonly options: Readonly<Partial<Record<MountOptionKey, string>>>
  /** `BAGFS_TOKEN`. */
  readonly token?: string
  /** `OPENFILES_API_TOKEN`, which older clients of the service read: for an account that has no token otherwise. */
  readonly lastResortToken?: string
  /** `BAGFS_PROFILE`: the profile that is used where none is named. */
  readonly profile?: string
  /** `NOTIFY_SOCKET`: where the service manager that started this process wants to be told how it is. */
  readonly notifySocket?: string
  /** `PATH`, where programs such as fusermount are looked for. */
  readonly searchPath: string
}

/** Where the system looks for programs without `PATH`: mount(8) gives a helper none. */
const DEFAULT_PATH = '/usr/bin:/bin'
const NOTIFY_VARIABLE = 'NOTIFY_SOCKET'

type Variables = Readonly<Record<string, string | undefined>>

export const TOKEN_VARIABLE = 'BAGFS_TOKEN'
export const LAST_RESORT_TOKEN_VARIABLE = 'OPENFILES_API_TOKEN'

/**
 * As `readEnvironment`, and takes the tokens out of it, and what is meant for this process alone. Every program that
 * this process starts inherits what is left, and a drive of its own gets the token by a safer way.
 */
export function takeEnvironment(variables: NodeJS.ProcessEnv = process.env): Environment {
  const environment = readEnvironment(variables)
  for (const name of [TOKEN_VARIABLE, LAST_RESORT_TOKEN_VARIABLE, NOTIFY_VARIABLE]) {
    Reflect.deleteProperty(variables, name)
  }
  return environment
}

/** True where a descriptor of this process leads to the journal of systemd: `JOURNAL_STREAM` (systemd.exec(5)). */
export function leadsToJournal(descriptor: number, variables: Variables = process.env): boolean {
  const named = variables['JOURNAL_STREAM']
  if (named === undefined) return false
  try {
    const { dev, ino } = fstatSync(descriptor, { bigint: true })
    return named === `${dev}:${ino}`
  } catch {
    // It is closed.
    return false
  }
}

/** Reads the environment; a variable that is set to nothing counts as not set. */
export function readEnvironment(variables: Variables = process.env): Environment {
  const read = (name: string): string | undefined => {
    const value = variables[name]?.trim()
    return value === '' ? undefined : value
  }
  const token = read(TOKEN_VARIABLE)
  const lastResortToken = read(LAST_RESORT_TOKEN_VARIABLE)
  const profile = read('BAGFS_PROFILE')
  const notifySocket = read(NOTIFY_VARIABLE)
  const options = MOUNT_OPTION_KEYS.flatMap((key) => {
    const value = read(optionVariable(key))
    return value === undefined ? [] : [[key, value] as const]
  })
  return {
    options: Object.fromEntries(options),
    ...(token === undefined ? {} : { token }),
    ...(lastResortToken === undefined ? {} : { lastResortToken }),
    ...(profile === undefined ? {} : { profile }),
    ...(notifySocket === undefined ? {} : { notifySocket }),
    searchPath: read('PATH') ?? DEFAULT_PATH,
  }
}
