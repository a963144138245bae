import { readlink, realpath, readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { Option } from '@commander-js/extra-typings'
import type { Environment } from '../config/env.ts'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { askStatus } from '../control/client.ts'
import type { DriveStatus } from '../control/protocol.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { DriveError, fromFileSystem, isAbsent, systemErrorCode } from '../domain/errors.ts'
import { findMount } from '../disk/find-mount.ts'
import { isThere } from '../disk/if-there.ts'
import { knownStateDirs } from './drive-dirs.ts'

/** A drive that answers. */
export interface LiveDrive extends RunningDrive {
  readonly status: DriveStatus
}

/** Where the changes and the cache of one account are: in a running drive, or on disk with none. */
export type DrivePlace =
  | { readonly kind: 'live'; readonly drive: LiveDrive }
  | { readonly kind: 'idle'; readonly stateDir: string }

export interface PlaceFlags {
  readonly mountpoint?: string
  readonly stateDir?: string
}

export const mountpointOption = (): Option<'--mountpoint <dir>'> =>
  new Option('--mountpoint <dir>', 'the drive that is mounted there, or was').conflicts('stateDir')

export const stateDirOption = (): Option<'--state-dir <dir>'> =>
  new Option('--state-dir <dir>', 'the accounts of this state directory, mounted or not')

/** Drives that are mounted and answer. */
export async function findLiveDrives(): Promise<readonly LiveDrive[]> {
  return (await findDrives()).live
}

/** Drives that answer, and those that do not although they never left; of all mountpoints, or of one. */
export async function findDrives(mountpoint?: string): Promise<{
  readonly live: readonly LiveDrive[]
  readonly dead: readonly RunningDrive[]
}> {
  const registry = new DriveRegistry(findRegistryDirs())
  const all = await registry.list()
  const known = all.filter((drive) => drive.mountpoint === (mountpoint ?? drive.mountpoint))
  const answered = await Promise.all(known.map(async (drive) => asLive(drive)))
  return {
    live: answered.filter((drive) => drive !== undefined),
    dead: known.filter((_, index) => answered[index] === undefined),
  }
}

/** The drive mounted at a path; rejects `usage` when there is none that answers. */
export async function findLiveDrive(path: string): Promise<LiveDrive> {
  const mountpoint = await absoluteMountpoint(path)
  const known = await new DriveRegistry(findRegistryDirs()).find(mountpoint)
  const live = known && (await asLive(known))
  if (live === undefined) throw await noDrive(mountpoint)
  return live
}

/** The drive that is mounted at a path, or the only one; rejects `usage` when that is none, with `hint` when none is mounted. */
export async function findOneDrive(
  path: string | undefined,
  hint = 'Mount one: bagfs mount MOUNTPOINT.',
): Promise<LiveDrive> {
  if (path !== undefined) return findLiveDrive(path)
  const [first, ...others] = await findLiveDrives()
  if (first === undefined) throw new DriveError('usage', 'No drive is mounted.', { hint })
  if (others.length === 0) return first
  const all = [first, ...others].map(({ mountpoint }) => mountpoint).join(', ')
  throw new DriveError('usage', `Which drive? Several are mounted: ${all}`, {
    hint: 'Name its mountpoint.',
  })
}

/** Why a path names no drive, with what to do. */
export async function noDrive(mountpoint: string): Promise<DriveError> {
  const inside = await insideDrive(mountpoint)
  if (inside !== undefined) return inside
  return new DriveError('usage', `No running bagfs drive is mounted at ${mountpoint}.`, {
    hint: `bagfs status lists the drives that run; bagfs mount ${mountpoint} mounts one there.`,
  })
}

/** What is told of a path that is in a drive, where the drive itself has to be named; undefined for any other. */
export async function insideDrive(path: string): Promise<DriveError | undefined> {
  const [around] = drivesAround(await new DriveRegistry(findRegistryDirs()).list(), path)
  if (around === undefined || around.mountpoint === path) return undefined
  return new DriveError('usage', `${path} is in the drive at ${around.mountpoint}.`, {
    hint: `Name the drive itself: ${around.mountpoint}`,
  })
}

async function asLive(drive: RunningDrive): Promise<LiveDrive | undefined> {
  const status = await askStatus(drive.socketPath)
  return status === undefined ? undefined : { ...drive, status }
}

/**
 * All accounts that flags mean: one mounted drive, or those of a state directory. Without flags,
 * those of every state directory that is known and every drive that is mounted.
 */
export async function findPlaces(
  environment: Environment,
  flags: PlaceFlags,
): Promise<readonly DrivePlace[]> {
  if (flags.mountpoint !== undefined) return [await findPlace(flags.mountpoint)]
  const { live, dead } = await findDrives()
  const former = await new DriveRegistry(findRegistryDirs()).listFormer()
  const { stateDir: wanted } = flags
  const roots = wanted === undefined ? await knownStateDirs(environment) : [resolve(wanted)]
  const mustExist = wanted !== undefined
  const found = (await Promise.all(roots.map((root) => accountDirs(root, { mustExist })))).flat()
  const isHere = ({ stateDir }: Pick<RunningDrive, 'stateDir'>): boolean =>
    wanted === undefined || (stateDir !== undefined && roots.includes(dirname(stateDir)))
  const left = [...dead, ...former].filter(isHere).flatMap(({ stateDir }) => stateDir ?? [])
  const idle = await onlyThere([...new Set([...found, ...left])])
  const held = new Set(live.map(({ stateDir }) => stateDir))
  return [
    ...live.filter(isHere).map((drive) => ({ kind: 'live' as const, drive })),
    ...idle
      .filter((stateDir) => !held.has(stateDir))
      .map((stateDir) => ({ kind: 'idle' as const, stateDir })),
  ]
}

/** The drive that is mounted at a path, or what the last one there left on disk; rejects `usage` when none is known. */
async function findPlace(path: string): Promise<DrivePlace> {
  const mountpoint = await absoluteMountpoint(path)
  const { live, dead } = await findDrives(mountpoint)
  const [drive] = live
  if (drive !== undefined) return { kind: 'live', drive }
  const former = await new DriveRegistry(findRegistryDirs()).listFormer(mountpoint)
  const left = [...dead, ...former].flatMap(({ stateDir }) => stateDir ?? [])
  const [stateDir] = await onlyThere(left)
  if (stateDir === undefined) throw await noDrive(mountpoint)
  return { kind: 'idle', stateDir }
}

async function onlyThere(stateDirs: readonly string[]): Promise<readonly string[]> {
  const are = await Promise.all(stateDirs.map((stateDir) => isThere(stateDir)))
  return stateDirs.filter((_, index) => are[index])
}

async function accountDirs(
  root: string,
  { mustExist }: { readonly mustExist: boolean },
): Promise<readonly string[]> {
  try {
    const dirents = await readdir(root, { withFileTypes: true })
    const dirs = dirents
      .filter((dirent) => dirent.isDirectory())
      .map(({ name }) => join(root, name))
    const isAccount = await Promise.all(dirs.map(holdsOutbox))
    return dirs.filter((_, index) => isAccount[index])
  } catch (error) {
    if (!isAbsent(error)) throw fromFileSystem(error, `Cannot read ${root}`)
    if (!mustExist) return []
    throw new DriveError('usage', `${root} does not exist.`)
  }
}

async function holdsOutbox(dir: string): Promise<boolean> {
  return (await readdir(dir)).includes('outbox')
}

/** A path with its links resolved, without touching what is mounted on it, which may be dead. */
export function absoluteMountpoint(path: string): Promise<string> {
  return absolutePath(path, 'usage')
}

async function absolutePath(path: string, missing: 'usage' | 'not-found'): Promise<string> {
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

/** The drive that a path is in, and the names that lead there from its root. */
export async function findDriveOf(
  path: string,
): Promise<{ readonly drive: LiveDrive; readonly names: readonly string[] }> {
  const known = await new DriveRegistry(findRegistryDirs()).list()
  const typed = resolve(path)
  // A drive may hang, or be dead: what is below its mountpoint is not looked at.
  const full = drivesAround(known, typed).length > 0 ? typed : await absolutePath(path, 'not-found')
  const around = drivesAround(known, full)
  // Only drives around the path are asked: another one may hang, or be of another version.
  for (const each of around) {
    const drive = await asLive(each)
    if (drive === undefined) continue
    const names = full.slice(each.mountpoint.length + 1).split(sep)
    return { drive, names: names.filter((name) => name !== '') }
  }
  const [dead] = around
  if (dead === undefined) {
    throw new DriveError('usage', `${full} is in no bagfs drive that is mounted.`, {
      hint: 'Mount the account first: bagfs mount MOUNTPOINT.',
    })
  }
  throw new DriveError('usage', `The process of the drive at ${dead.mountpoint} has ended.`, {
    hint: `Mount it again: bagfs mount ${dead.mountpoint}.`,
  })
}

/** The drives that a path is in, the innermost first. */
function drivesAround(known: readonly RunningDrive[], path: string): readonly RunningDrive[] {
  return known
    .filter(({ mountpoint }) => `${path}/`.startsWith(`${mountpoint}/`))
    .sort((a, b) => b.mountpoint.length - a.mountpoint.length)
}

/** What a place is called to people: its mountpoint, else its directory. */
export function titleOf(place: DrivePlace): string {
  return place.kind === 'live' ? place.drive.mountpoint : `${place.stateDir} (not mounted)`
}
