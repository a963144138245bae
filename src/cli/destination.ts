import { constants } from 'node:fs'
import { copyFile, link, mkdir, rename, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { refuseEmpty } from '../config/paths.ts'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { encodeName } from '../domain/names.ts'

/** Where a bag is saved. */
export interface Destination {
  /** An existing directory, absolute. */
  readonly directory: string
  /** Undefined: under the name of the bag. */
  readonly name: string | undefined
}

/** Understands the DEST of `get`: a directory, a file, or nothing for the working directory. */
export async function findDestination(dest: string | undefined): Promise<Destination> {
  if (dest !== undefined) refuseEmpty(dest)
  const path = resolve(dest ?? '.')
  if (await isDirectory(path)) return { directory: path, name: undefined }
  const directory = dirname(path)
  if (dest?.endsWith('/') === true || !(await isDirectory(directory))) {
    const missing = dest?.endsWith('/') === true ? path : directory
    throw new DriveError('not-found', `The directory ${missing} does not exist.`)
  }
  return { directory, name: basename(path) }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemErrorCode(error) ?? '')) return false
    throw fromFileSystem(error, `Looking at ${path}`)
  }
}

/**
 * Moves a finished draft to its place and gives its path. Only a file that the person named is ever
 * replaced; a name that came from the listing, and a folder, replace nothing (`exists`).
 */
export async function publish(
  draft: string,
  destination: Destination,
  bagName: string,
): Promise<string> {
  const { directory, name } = destination
  const path = join(directory, name ?? encodeName(bagName))
  try {
    if (await isDirectory(draft)) await placeFolder(draft, path)
    else if (name === undefined) await placeNewFile(draft, path)
    else await rename(draft, path)
    return path
  } catch (error) {
    throw alreadyThere(error) ? exists(path, error) : fromFileSystem(error, `Saving ${path}`)
  }
}

/** A rename would replace an empty directory without a word, so the place is taken first. */
async function placeFolder(draft: string, path: string): Promise<void> {
  await mkdir(path)
  await rename(draft, path)
}

/** Some file systems have no hard links; there the file is copied. */
async function placeNewFile(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path)
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK'].includes(systemErrorCode(error) ?? ''))
      throw error
    await copyFile(draft, path, constants.COPYFILE_EXCL)
  }
}

function alreadyThere(error: unknown): boolean {
  return ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY'].includes(systemErrorCode(error) ?? '')
}

function exists(path: string, cause: unknown): DriveError {
  return new DriveError('exists', `${path} exists already.`, {
    cause,
    hint: 'Give another destination, or the file itself to have it replaced.',
  })
}
