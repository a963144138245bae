/** The environment variables that bagfs itself looks at. */
export interface Environment {
  /** `BAGFS_URL`: base URL of the service. */
  readonly url?: string
  /** `BAGFS_TOKEN`, or as a last resort `OPENFILES_API_TOKEN`, which older clients of the service read. */
  readonly token?: string
  /** `PATH`, where programs such as fusermount are looked for. */
  readonly searchPath: string
}

type Variables = Readonly<Record<string, string | undefined>>

/** The first that is set counts. */
const TOKEN_VARIABLES: readonly string[] = ['BAGFS_TOKEN', 'OPENFILES_API_TOKEN']

/**
 * As `readEnvironment`, and takes the token out of it. Every program that this process starts
 * inherits what is left, and a drive of its own gets the token by a safer way.
 */
export function takeEnvironment(variables: NodeJS.ProcessEnv = process.env): Environment {
  const environment = readEnvironment(variables)
  for (const name of TOKEN_VARIABLES) Reflect.deleteProperty(variables, name)
  return environment
}

/** Reads the environment; a variable that is set to nothing counts as not set. */
export function readEnvironment(variables: Variables = process.env): Environment {
  const read = (name: string): string | undefined => {
    const value = variables[name]?.trim()
    return value === '' ? undefined : value
  }
  const url = read('BAGFS_URL')
  const token = TOKEN_VARIABLES.map(read).find((value) => value !== undefined)
  return {
    ...(url === undefined ? {} : { url }),
    ...(token === undefined ? {} : { token }),
    searchPath: read('PATH') ?? '',
  }
}
