import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { refuseEmpty } from '../config/paths.ts'
import { findMount } from '../disk/find-mount.ts'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'

/** A path with its links resolved, without touching what is mounted on it, which may be dead. */
export function absoluteMountpoint(path: string): Promise<string> {
  return absolutePath(path, 'usage')
}

export async function absolutePath(path: string, missing: 'usage' | 'not-found'): Promise<string> {
  refuseEmpty(path)
  const full = resolve(path)
  try {
    return await followLinks(full)
  } catch (error) {
    if (isMissing(error)) throw new DriveError(missing, `${full} does not exist.`)
    if (systemErrorCode(error) === 'EACCES') throw noWayTo(full)
    throw fromFileSystem(error, `Looking at ${full}`)
  }
}

/** The user may not pass one of the directories that lead to the path. */
function noWayTo(path: string): DriveError {
  return new DriveError('forbidden', `You may not look into a directory on the way to ${path}.`, {
    hint: 'The owner of that directory, or root, can do this.',
  })
}

/** True where a path leads to nothing: it is not there, or goes on behind a file. */
export function isMissing(error: unknown): boolean {
  const code = systemErrorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}

/** Links that lead to one another end where the kernel gives up, too. */
const MOST_LINKS = 40

async function followLinks(path: string, linksLeft = MOST_LINKS): Promise<string> {
  const found = join(await realpath(dirname(path)), basename(path))
  if ((await findMount(found)) !== undefined) return found
  const target = await readlink(found).catch((error: unknown) => {
    const code = systemErrorCode(error)
    if (code === 'EINVAL' || code === 'ENOENT') return undefined
    throw error
  })
  if (target === undefined || linksLeft === 0) return found
  return followLinks(resolve(dirname(found), target), linksLeft - 1)
}
