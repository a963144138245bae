import { open } from 'node:fs/promises'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'

/** Where the token of an account is kept, and where a drive looks for a new one. */
export type TokenPlace =
  | { readonly kind: 'file'; readonly path: string }
  /** The desktop's keyring has it. */
  | ({ readonly kind: 'keyring' } & KeyringItem)

/** What a token is found by in the keyring: never that of one service in the place of another's. */
export interface KeyringItem {
  readonly profile: string
  /** Path of the config file that has the profile. */
  readonly config: string
  /** URL of the service. */
  readonly service: string
}

/** Nothing that a service hands out as a token is longer. */
export const LONGEST_TOKEN_BYTES = 64 * 1024

const NOT_THE_TOKEN =
  '--token-file takes the path of a file that holds the token, and not the token itself.'

/**
 * Reads a token file; white space around the token is ignored. One that other users of this machine can read or
 * change is refused, with the command that mends it. `whenGone` is the hint for one that is not there.
 */
export async function readTokenFile(path: string, whenGone = NOT_THE_TOKEN): Promise<string> {
  const { text, mode } = await readSmallFile(path, whenGone)
  if ((mode & 0o066) !== 0) {
    const others = [(mode & 0o044) !== 0 ? 'read' : '', (mode & 0o022) !== 0 ? 'changed' : '']
    const what = others.filter((each) => each !== '').join(' and ')
    throw new DriveError(
      'usage',
      `The token in ${path} can be ${what} by other users of this machine.`,
      { hint: `Close it to them: chmod 600 ${path}` },
    )
  }
  return checkToken(text, path)
}

async function readSmallFile(
  path: string,
  whenGone: string,
): Promise<{ text: string; mode: number }> {
  try {
    const file = await open(path, 'r')
    try {
      const stat = await file.stat()
      if (stat.size > LONGEST_TOKEN_BYTES) {
        throw new DriveError('usage', `${path} is too large to be a token file.`)
      }
      // What is no file of a disk, such as a pipe of the shell, has no name that others could open.
      const mode = stat.isFile() ? stat.mode : 0
      return { text: await file.readFile('utf8'), mode }
    } finally {
      await file.close()
    }
  } catch (error) {
    if (MISSING.includes(systemErrorCode(error) ?? '')) throw missing(path, whenGone)
    throw fromFileSystem(error, `Reading the token file ${path}`)
  }
}

/** What opening answers for a token in place of a path, too: it may be long, and hold slashes. */
const MISSING: readonly string[] = ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG']

/** The error has no cause, which would repeat the path. */
function missing(path: string, hint: string): DriveError {
  const isPlainlyPath = /^(?:\.|~|\/[^/]+\/)/.test(path)
  const file = isPlainlyPath ? `The token file ${path}` : 'The token file'
  return new DriveError('usage', `${file} does not exist.`, { hint })
}

/** A token goes into an HTTP header, so only visible ASCII can be one. */
export function checkToken(text: string, source: string): string {
  const token = text.trim()
  if (/^[!-~]+$/.test(token)) return token
  const what = token === '' ? 'holds no token' : 'holds something that cannot be a token'
  throw new DriveError('usage', `${source} ${what}.`, {
    hint: 'A token is one word of letters, digits and signs, on one line.',
  })
}
