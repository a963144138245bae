import { readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { Option } from '@commander-js/extra-typings'
import type { Environment } from '../config/env.ts'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { askStatus } from '../control/client.ts'
import type { DriveStatus } from '../control/protocol.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { DriveError, fromFileSystem, isAbsent, isDriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { isThere } from '../disk/if-there.ts'
import { knownStateDirs } from './drive-dirs.ts'
import { findNamed, findPathNamed, knownProfiles } from './drive-names.ts'
import { hangs } from './hung-drives.ts'
import { mountAgain } from './mount-again.ts'
import { absolutePath } from './mount-paths.ts'

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
  new Option(
    '--mountpoint <dir>',
    'the drive that is mounted there or is called so, or was',
  ).conflicts('stateDir')

export const stateDirOption = (): Option<'--state-dir <dir>'> =>
  new Option('--state-dir <dir>', 'the accounts of this state directory, mounted or not')

/** Drives that are mounted and answer. */
export async function findLiveDrives(): Promise<readonly LiveDrive[]> {
  return (await findDrives()).live
}

/** Drives of all mountpoints, or of one. */
interface FoundDrives {
  readonly live: readonly LiveDrive[]
  /** They do not answer although they never left: their processes have ended. */
  readonly dead: readonly RunningDrive[]
}

/** Rejects `timed-out` when one hangs. */
export async function findDrives(mountpoint?: string): Promise<FoundDrives> {
  const known = await knownDrives(mountpoint)
  const answered = await Promise.all(known.map(async (drive) => asLive(drive)))
  return sorted(known, answered)
}

/** As `findDrives`; waits so long for an answer, and tells which drives have given none. */
export async function lookAtDrives(
  mountpoint: string | undefined,
  limitMs: number,
): Promise<FoundDrives & { readonly hung: readonly RunningDrive[] }> {
  const hung = new Set<RunningDrive>()
  const known = await knownDrives(mountpoint)
  const answered = await Promise.all(
    known.map((drive) =>
      askLive(drive, limitMs).catch((error: unknown) => {
        if (!isDriveError(error, 'timed-out')) throw error
        hung.add(drive)
        return undefined
      }),
    ),
  )
  const { live, dead } = sorted(known, answered)
  return { live, dead: dead.filter((drive) => !hung.has(drive)), hung: [...hung] }
}

async function knownDrives(mountpoint: string | undefined): Promise<readonly RunningDrive[]> {
  const all = await new DriveRegistry(findRegistryDirs()).list()
  return all.filter((drive) => drive.mountpoint === (mountpoint ?? drive.mountpoint))
}

function sorted(
  known: readonly RunningDrive[],
  answered: readonly (LiveDrive | undefined)[],
): FoundDrives {
  return {
    live: answered.filter((drive) => drive !== undefined),
    dead: known.filter((_, index) => answered[index] === undefined),
  }
}

/** The drive of a name or at a path; rejects `usage` when there is none that answers. */
export async function findLiveDrive(word: string): Promise<LiveDrive> {
  const { mountpoint } = await findNamed(word)
  const known = await new DriveRegistry(findRegistryDirs()).find(mountpoint)
  const live = known && (await asLive(known))
  if (live === undefined) throw await noDrive(mountpoint)
  return live
}

/** The drive of a name or at a path, or the only one; rejects `usage` when that is none, with `hint` when none is mounted. */
export async function findOneDrive(
  word: string | undefined,
  hint = 'Mount one: bagfs mount MOUNTPOINT.',
): Promise<LiveDrive> {
  if (word !== undefined) return findLiveDrive(word)
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
  const [last = { mountpoint }] = await new DriveRegistry(findRegistryDirs()).listFormer(mountpoint)
  return new DriveError('usage', `No running bagfs drive is mounted at ${mountpoint}.`, {
    hint: `bagfs status lists the drives that run. Mount one there: ${mountAgain(last)}`,
  })
}

/** What is told of a path that is in a drive, where the drive itself has to be named; undefined for any other. */
export async function insideDrive(path: string): Promise<DriveError | undefined> {
  const [around] = drivesAround(await new DriveRegistry(findRegistryDirs()).list(), path)
  if (around === undefined || around.mountpoint === path) return undefined
  const name = basename(path)
  const byProfile = (await knownProfiles()).has(name)
    ? `. The drive of the profile ${name}: ${name}:`
    : ''
  return new DriveError('usage', `${path} is in the drive at ${around.mountpoint}.`, {
    hint: `Name the drive itself: ${shellQuote(around.mountpoint)}${byProfile}`,
  })
}

async function asLive(drive: RunningDrive): Promise<LiveDrive | undefined> {
  try {
    return await askLive(drive)
  } catch (error) {
    throw isDriveError(error, 'timed-out') ? await hangs(drive, error) : error
  }
}

async function askLive(drive: RunningDrive, limitMs?: number): Promise<LiveDrive | undefined> {
  const status = await askStatus(drive.socketPath, limitMs)
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

/** The drive of a name or at a path, or what the last one there left on disk; rejects `usage` when none is known. */
async function findPlace(word: string): Promise<DrivePlace> {
  const { mountpoint } = await findNamed(word)
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

/** A path in a drive. */
export interface PathInDrive {
  readonly drive: LiveDrive
  /** They lead there from its root. */
  readonly names: readonly string[]
  /** Absolute. */
  readonly path: string
  /** The drive as the person named it, for other commands. */
  readonly called: string
}

/** The drive that a path is in, which may begin with `PROFILE:`. */
export async function findDriveOf(word: string): Promise<PathInDrive> {
  const known = await new DriveRegistry(findRegistryDirs()).list()
  const { path: typed, called } = await findPathNamed(word)
  // A drive may hang, or be dead: what is below its mountpoint is not looked at.
  const full =
    drivesAround(known, typed).length > 0 ? typed : await absolutePath(typed, 'not-found')
  const around = drivesAround(known, full)
  // Only drives around the path are asked: another one may hang, or be of another version.
  for (const each of around) {
    const drive = await asLive(each)
    if (drive === undefined) continue
    const names = full.slice(each.mountpoint.length + 1).split(sep)
    return {
      ...{ drive, path: full, called: called ?? drive.mountpoint },
      names: names.filter((name) => name !== ''),
    }
  }
  const [dead] = around
  if (dead === undefined) {
    throw new DriveError('usage', `${full} is in no bagfs drive that is mounted.`, {
      hint: 'Mount the account first: bagfs mount MOUNTPOINT.',
    })
  }
  throw new DriveError('usage', `The process of the drive at ${dead.mountpoint} has ended.`, {
    hint: `Mount it again: ${mountAgain(dead)}`,
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
