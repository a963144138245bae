import { chmodSync, lstatSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeDirectory } from '../disk/make-directory.ts'
import { DriveError, systemErrorCode } from '../domain/errors.ts'

const HINT = 'Set XDG_RUNTIME_DIR to a directory of your own, or unset it.'

/**
 * Directory for what lives as long as a running drive: `$XDG_RUNTIME_DIR/bagfs`, else a private one
 * under the temporary directory. Made when missing; refused (`usage`) when it belongs to another
 * user.
 */
export function findRuntimeDir(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const base = variables['XDG_RUNTIME_DIR']
  const uid = process.getuid?.() ?? 0
  const path =
    base === undefined || base === '' ? join(tmpdir(), `bagfs-${uid}`) : join(base, 'bagfs')
  try {
    makeDirectory(path)
    const stat = lstatSync(path)
    if (!stat.isDirectory() || stat.uid !== uid) {
      throw new DriveError('usage', `${path} belongs to somebody else.`, { hint: HINT })
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
