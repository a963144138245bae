import { isAbsolute, join } from 'node:path'
import envPaths from 'env-paths'
import { DriveError } from '../domain/errors.ts'

/** Where bagfs keeps things unless an option says otherwise. All paths are absolute. */
export interface DefaultPaths {
  /** Root of the state directories: `~/.local/state/bagfs` on Linux (`XDG_STATE_HOME`). */
  readonly stateDir: string
  /** The config file and the tokens of profiles: `~/.config/bagfs` (`XDG_CONFIG_HOME`). */
  readonly configDir: string
  /** Data of the embedded service behind `mount --local`: `~/.local/share/bagfs/local` (`XDG_DATA_HOME`). */
  readonly localDataDir: string
}

/** Finds the directories that the platform sets aside for this user. */
export function findDefaultPaths(): DefaultPaths {
  const paths = envPaths('bagfs', { suffix: '' })
  return {
    stateDir: requireAbsolute(paths.log, 'XDG_STATE_HOME'),
    configDir: requireAbsolute(paths.config, 'XDG_CONFIG_HOME'),
    localDataDir: join(requireAbsolute(paths.data, 'XDG_DATA_HOME'), 'local'),
  }
}

const PATH_VARIABLES = ['XDG_STATE_HOME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME']

/** Which of the variables that `findDefaultPaths` follows are set, for a process that has another environment. */
export function listPathVariables(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    PATH_VARIABLES.flatMap((name) => {
      const value = variables[name]
      return value === undefined || value === '' ? [] : [[name, value] as const]
    }),
  )
}

/** A relative directory would be another one in every working directory, and an outbox would be lost from sight. */
function requireAbsolute(path: string, variable: string): string {
  if (isAbsolute(path)) return path
  throw new DriveError('usage', `${variable} leads to "${path}", which is not an absolute path.`, {
    hint: `Set ${variable} to an absolute path, or unset it.`,
  })
}

/** An empty word would be the working directory: a variable of a script that is not set. */
export function refuseEmpty(path: string): void {
  if (path === '') throw new DriveError('usage', 'An empty word is no path.')
}
