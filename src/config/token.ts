import { open } from 'node:fs/promises'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'

export interface TokenSources {
  /** `--token-file`: read first. */
  readonly tokenFile?: string
  /** The token in the environment, see config/env.ts. */
  readonly environmentToken?: string
}

/** Nothing that a service hands out as a token is longer. */
const LONGEST_TOKEN_BYTES = 64 * 1024

/**
 * Finds the token of the account: `--token-file`, then the environment. Without any, a `usage` error
 * that says where to get one. `warn` gets a sentence when others can read or change the file.
 */
export async function readToken(
  sources: TokenSources,
  warn: (sentence: string) => void,
): Promise<string> {
  if (sources.tokenFile !== undefined) return readTokenFile(sources.tokenFile, warn)
  if (sources.environmentToken !== undefined) {
    return checkToken(sources.environmentToken, 'BAGFS_TOKEN')
  }
  throw new DriveError('usage', 'No token was given for this account.', {
    hint: "Copy the API token from the service's dashboard into a file and give --token-file FILE, or set BAGFS_TOKEN.",
  })
}

/** Reads a token file; white space around the token is ignored. */
export async function readTokenFile(
  path: string,
  warn: (sentence: string) => void,
): Promise<string> {
  const { text, mode } = await readSmallFile(path)
  if ((mode & 0o066) !== 0) {
    const others = [(mode & 0o044) !== 0 ? 'read' : '', (mode & 0o022) !== 0 ? 'changed' : '']
    const what = others.filter((each) => each !== '').join(' and ')
    warn(`The token in ${path} can be ${what} by other users of this machine; try chmod 600 on it.`)
  }
  return checkToken(text, path)
}

async function readSmallFile(path: string): Promise<{ text: string; mode: number }> {
  try {
    const file = await open(path, 'r')
    try {
      const { mode, size } = await file.stat()
      if (size > LONGEST_TOKEN_BYTES) {
        throw new DriveError('usage', `${path} is too large to be a token file.`)
      }
      return { text: await file.readFile('utf8'), mode }
    } finally {
      await file.close()
    }
  } catch (error) {
    if (MISSING.includes(systemErrorCode(error) ?? '')) throw missing(path)
    throw fromFileSystem(error, `Reading the token file ${path}`)
  }
}

/** What opening answers for a token in place of a path, too: it may be long, and hold slashes. */
const MISSING: readonly string[] = ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG']

/** The error has no cause, which would repeat the path. */
function missing(path: string): DriveError {
  const isPlainlyPath = /^(?:\.|~|\/[^/]+\/)/.test(path)
  const file = isPlainlyPath ? `The token file ${path}` : 'The token file'
  return new DriveError('usage', `${file} does not exist.`, {
    hint: '--token-file takes the path of a file that holds the token, and not the token itself.',
  })
}

/** A token goes into an HTTP header, so only visible ASCII can be one. */
function checkToken(text: string, source: string): string {
  const token = text.trim()
  if (/^[!-~]+$/.test(token)) return token
  const what = token === '' ? 'holds no token' : 'holds something that cannot be a token'
  throw new DriveError('usage', `${source} ${what}.`, {
    hint: 'A token is one word of letters, digits and signs, on one line.',
  })
}
