import { constants, type Stats } from 'node:fs'
import { copyFile, link, lstat, mkdir, mkdtemp, realpath, rename, rm, stat } from 'node:fs/promises'
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
  /** What to do where the name of the bag is taken. */
  readonly ifTaken: string
}

/** Understands the DEST of `get`: a directory, a file, or nothing for the working directory. */
export async function findDestination(dest: string | undefined): Promise<Destination> {
  if (dest !== undefined) refuseEmpty(dest)
  const given = resolve(dest ?? '.')
  const path = (await isDirectory(given)) ? given : await followLink(given)
  const ifTaken = 'Give another destination, or the file itself to have it replaced.'
  if (await isDirectory(path)) return { directory: path, name: undefined, ifTaken }
  const directory = dirname(path)
  if (dest?.endsWith('/') === true || !(await isDirectory(directory))) {
    const missing = dest?.endsWith('/') === true ? path : directory
    throw new DriveError('not-found', `The directory ${missing} does not exist.`)
  }
  return { directory, name: basename(path), ifTaken }
}

/** What a link leads to is replaced, and not the link. */
async function followLink(path: string): Promise<string> {
  const isLink = (await lookAt(path, lstat))?.isSymbolicLink() === true
  if (!isLink) return path
  if ((await lookAt(path, stat)) !== undefined) return realpath(path)
  throw new DriveError('not-found', `${path} is a link to something that does not exist.`)
}

/** True for a device, a fifo or a socket: it takes content, and nothing takes its place. */
export async function isSpecialFile(path: string): Promise<boolean> {
  const found = await lookAt(path, stat)
  return found !== undefined && !found.isFile() && !found.isDirectory()
}

async function isDirectory(path: string): Promise<boolean> {
  return (await lookAt(path, stat))?.isDirectory() === true
}

async function lookAt(
  path: string,
  look: (path: string) => Promise<Stats>,
): Promise<Stats | undefined> {
  try {
    return await look(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemErrorCode(error) ?? '')) return undefined
    throw fromFileSystem(error, `Looking at ${path}`)
  }
}

/**
 * Runs a task with an empty directory beside a destination, so that its last step is a rename. What is left in it
 * goes, however the task ends.
 */
export async function withDraft<Result>(
  directory: string,
  task: (draft: string) => Promise<Result>,
): Promise<Result> {
  const draft = await mkdtemp(join(directory, '.bagfs-draft-')).catch((error: unknown) => {
    throw fromFileSystem(error, `Writing to ${directory}`)
  })
  try {
    return await task(draft)
  } finally {
    await rm(draft, { recursive: true, force: true })
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
    if (!alreadyThere(error)) throw fromFileSystem(error, `Saving ${path}`)
    const hint = destination.ifTaken
    throw new DriveError('exists', `${path} exists already.`, { cause: error, hint })
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
