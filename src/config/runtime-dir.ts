import { chmodSync, lstatSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeDirectory } from '../disk/make-directory.ts'
import { DriveError, systemErrorCode } from '../domain/errors.ts'
import { findDefaultPaths } from './paths.ts'

const HINT = 'Set XDG_RUNTIME_DIR to a directory of your own.'

/**
 * Directory for what lives as long as a running drive: `$XDG_RUNTIME_DIR/bagfs`, else a private one under the temporary
 * directory. Another user may have taken that name first: then it is one in the state directory. Made when missing;
 * refused (`usage`) when it belongs to another user.
 */
export function findRuntimeDir(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const base = variables['XDG_RUNTIME_DIR']
  if (base !== undefined && base !== '') return requireOwn(join(base, 'bagfs'))
  try {
    return requireOwn(join(tmpdir(), `bagfs-${ownUid()}`))
  } catch {
    return requireOwn(join(findDefaultPaths().stateDir, 'run'))
  }
}

function ownUid(): number {
  return process.getuid?.() ?? 0
}

function requireOwn(path: string): string {
  try {
    makeDirectory(path)
    const stat = lstatSync(path)
    if (!stat.isDirectory() || stat.uid !== ownUid()) {
      throw new DriveError('usage', `${path} belongs to another user, or is no directory.`, {
        hint: HINT,
      })
    }
    chmodSync(path, 0o700)
    return path
  } catch (error) {
    if (error instanceof DriveError) throw error
    const why = systemErrorCode(error) ?? String(error)
    throw new DriveError('usage', `The runtime directory ${path} cannot be used (${why}).`, {
      cause: error,
      hint: HINT,
    })
  }
}
