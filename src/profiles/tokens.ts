import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { checkToken, readTokenFile, type KeyringItem, type TokenPlace } from '../config/token.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'
import { fromFileSystem } from '../domain/errors.ts'
import { configPath } from './config-file.ts'
import { readFromKeyring, removeFromKeyring, storeInKeyring } from './keyring.ts'

/**
 * Reads a token where it is kept, `profile` being the one that says so. Rejects with `usage` where it is not to be
 * had, or others could have it.
 */
export async function readToken(
  place: TokenPlace,
  {
    longestMs,
    profile,
  }: { readonly longestMs?: number; readonly profile?: string | undefined } = {},
): Promise<string> {
  if (place.kind === 'file') {
    return readTokenFile(place.path, profile === undefined ? undefined : whenGone(place, profile))
  }
  return checkToken(await readFromKeyring(place, longestMs), 'The keyring')
}

/** The hint for a path that is in a profile, and was typed by no person. */
function whenGone({ path }: { readonly path: string }, profile: string): string {
  const what = isOwnTokenFile(path)
    ? `It had the token of profile ${profile}.`
    : `Profile ${profile} has its token there, by token-file.`
  return `${what} Log in again: bagfs login ${profile}`
}

export function describeTokenPlace(place: TokenPlace): string {
  return place.kind === 'file' ? place.path : 'the keyring of the desktop'
}

/**
 * The file that a token is kept in where there is no keyring. A drive that finds its token refused looks there for a
 * new one, so the token of another service has another file.
 */
function ownTokenFile(profile: string, service: string): string {
  const hash = createHash('sha256').update(service).digest('hex').slice(0, 8)
  return join(ownDirectory(), `${profile}-${hash}`)
}

function ownDirectory(): string {
  return join(dirname(configPath()), 'tokens')
}

/** Keeps a token: in the desktop's keyring where that is wanted and works, else in a file of this user alone. */
export async function keepToken(
  { profile, token, service }: Omit<KeyringItem, 'config'> & { readonly token: string },
  { useKeyring }: { readonly useKeyring: boolean },
): Promise<TokenPlace> {
  const item = { profile, config: configPath(), service }
  if (useKeyring && (await storeInKeyring(item, token, `bagfs: ${profile} (${service})`))) {
    return { kind: 'keyring', ...item }
  }
  const path = ownTokenFile(profile, service)
  await makePrivateDirectory(dirname(path), 'config directory')
  try {
    await writeFileAtomic(path, `${token}\n`, { durable: true })
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
  return { kind: 'file', path }
}

/** Forgets a token that `keepToken` has kept; a file of the person's own stays. False where the keyring kept it. */
export async function forgetToken(place: TokenPlace): Promise<boolean> {
  if (place.kind === 'keyring') return removeFromKeyring(place)
  if (!isOwnTokenFile(place.path)) return true
  try {
    await rm(place.path, { force: true })
    return true
  } catch (error) {
    throw fromFileSystem(error, `Removing ${place.path}`)
  }
}

/** True for a file that bagfs made, and not the person. */
export function isOwnTokenFile(path: string): boolean {
  return dirname(path) === ownDirectory()
}
