import { join, resolve } from 'node:path'
import { refuseEmpty } from '../config/paths.ts'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { DriveRegistry, type RunningDrive } from '../control/registry.ts'
import { findMount } from '../disk/find-mount.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import { probePath } from '../mount/probe-path.ts'
import { readProfiles } from '../profiles/config-file.ts'
import { isProfileName } from '../profiles/profile.ts'
import { absoluteMountpoint } from './mount-paths.ts'
import { fromHome } from './mount-target.ts'

const LONGEST_LOOK_MS = 3_000

/** A drive that a person named, whether it runs or not. */
export interface NamedDrive {
  readonly mountpoint: string
  /** As the person named it, for other commands: `work:`, or the path. */
  readonly called: string
}

/** `work` or `work:` is the drive of the profile work, `work:~/drive` the one that is mounted there, anything else a path. */
export async function findNamed(word: string): Promise<NamedDrive> {
  const named = await readNamed(word)
  if (named === undefined || (named.rest === undefined && (await isThereInDrive(word)))) {
    const mountpoint = await absoluteMountpoint(word)
    return { mountpoint, called: mountpoint }
  }
  const { profile, rest = '' } = named
  if (rest === '') return { mountpoint: await mountpointOf(profile), called: `${profile}:` }
  const mountpoint = await absoluteMountpoint(fromHome(rest))
  await refuseOther(profile, mountpoint)
  return { mountpoint, called: mountpoint }
}

/** As `findNamed` of a path in a drive: `work:docs/a.txt` begins at the root of the drive. Absolute; links are left. */
export async function findPathNamed(
  word: string,
): Promise<{ readonly path: string; readonly called?: string }> {
  const named = await readNamed(word)
  if (named === undefined || (named.rest === undefined && (await isOfDrive(word)))) {
    refuseEmpty(word)
    return { path: resolve(word) }
  }
  const { profile, rest = '' } = named
  const mountpoint = await mountpointOf(profile)
  const onDisk = resolve(fromHome(rest))
  const isOnDisk = rest !== '' && `${onDisk}/`.startsWith(`${mountpoint}/`)
  return { path: isOnDisk ? onDisk : join(mountpoint, rest), called: `${profile}:` }
}

/** The names of profiles that have drives or are logged in. */
export async function knownProfiles(): Promise<ReadonlySet<string>> {
  const registry = new DriveRegistry(findRegistryDirs())
  const drives = [...(await registry.list()), ...(await registry.listFormer())]
  const written = await readProfiles().catch((error: unknown) => {
    // A drive is found by its path, or by a name that it has told, whatever the file says.
    if (isDriveError(error)) return { all: [] }
    throw error
  })
  return new Set([...drives.flatMap(({ profile }) => profile ?? []), ...written.all.map(nameOf)])
}

function nameOf({ name }: { readonly name: string }): string {
  return name
}

/** The parts of `PROFILE` and `PROFILE:REST`; undefined for what can only be a path. */
export function splitNamed(
  word: string,
): { readonly profile: string; readonly rest?: string } | undefined {
  const colon = word.indexOf(':')
  const profile = colon === -1 ? word : word.slice(0, colon)
  if (!isProfileName(profile)) return undefined
  return colon === -1 ? { profile } : { profile, rest: word.slice(colon + 1) }
}

/** Undefined where no profile has the name. */
async function readNamed(word: string) {
  const named = splitNamed(word)
  return named !== undefined && (await knownProfiles()).has(named.profile) ? named : undefined
}

/** A directory that is called like a profile may be a drive, or be in one. */
async function isOfDrive(word: string): Promise<boolean> {
  return (await drivePathOf(word)) !== undefined
}

/** As `isOfDrive`; what is in a drive counts only where something of this name is there. */
async function isThereInDrive(word: string): Promise<boolean> {
  const found = await drivePathOf(word)
  if (found === undefined || found.isDrive) return found !== undefined
  // The drive may hang.
  const probe = await probePath(found.path, LONGEST_LOOK_MS)
  return probe.is === 'directory' || probe.is === 'something-else'
}

/** A path that is a drive, or is in one. */
async function drivePathOf(
  word: string,
): Promise<{ readonly path: string; readonly isDrive: boolean } | undefined> {
  const path = await absoluteMountpoint(word).catch((error: unknown) => {
    if (isDriveError(error)) return undefined
    throw error
  })
  if (path === undefined) return undefined
  const known = await new DriveRegistry(findRegistryDirs()).list()
  const isInDrive = known.some(({ mountpoint }) => `${path}/`.startsWith(`${mountpoint}/`))
  const isDrive = known.some(({ mountpoint }) => path === mountpoint)
  return isInDrive ? { path, isDrive } : undefined
}

/** Where the drive of a profile is, or was last. Rejects `usage`. */
async function mountpointOf(profile: string): Promise<string> {
  const registry = new DriveRegistry(findRegistryDirs())
  const known = await stillMounted(
    (await registry.list()).filter((drive) => drive.profile === profile),
  )
  const [first, ...others] = known
  if (others.length > 0) {
    const all = known.map(({ mountpoint }) => mountpoint).join(', ')
    throw new DriveError('usage', `Which drive? ${profile} has several: ${all}`, {
      hint: 'Name its mountpoint.',
    })
  }
  const former = await registry.listFormer()
  const last = first ?? former.find((drive) => drive.profile === profile)
  if (last !== undefined) return last.mountpoint
  throw new DriveError('usage', `No drive of the profile ${profile} is mounted.`, {
    hint: `Mount it: bagfs mount ${profile}:MOUNTPOINT`,
  })
}

/** Of several, those that were killed and unmounted since are not meant. */
async function stillMounted(drives: readonly RunningDrive[]): Promise<readonly RunningDrive[]> {
  if (drives.length < 2) return drives
  const mounts = await Promise.all(drives.map(({ mountpoint }) => findMount(mountpoint)))
  return drives.filter((_, index) => mounts[index]?.type === 'fuse.bagfs')
}

async function refuseOther(profile: string, mountpoint: string): Promise<void> {
  const known = await new DriveRegistry(findRegistryDirs()).find(mountpoint)
  if (known === undefined || known.profile === profile) return
  const of = known.profile === undefined ? 'another account' : `the profile ${known.profile}`
  throw new DriveError('usage', `The drive at ${mountpoint} is of ${of}, not of ${profile}.`)
}
