import { mkdir } from 'node:fs/promises'
import { resolve, sep } from 'node:path'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { DriveRegistry } from '../control/registry.ts'
import { findMount } from '../disk/find-mount.ts'
import { readProcessStat } from '../disk/process-stat.ts'
import { DRIVE_TYPE, refuseMounted } from '../kernel/refuse-mounted.ts'
import { unmountHung } from '../kernel/unmount.ts'
import { probePath } from './probe-path.ts'
import type { PathProbe } from './probe-path.ts'

const PROBE_TIMEOUT_MS = 5_000
export interface MountpointSettings {
  /** As the person typed it. */
  readonly path: string
  /** Directories of bagfs itself: the drive must not hide them, nor lie in them. Absolute. */
  readonly ownDirectories: readonly string[]
  readonly timeoutMs?: number
  /** Asked when there is nothing at the path: true when it shall be made. */
  readonly mayMake?: (path: string) => Promise<boolean>
}

/**
 * Checks that a drive can be mounted at a path and gives its absolute path without symlinks. Takes away the dead
 * mount that a killed drive left there. Rejects `usage` for a path that will not do and `busy` for one where
 * something is mounted.
 */
export async function checkMountpoint(settings: MountpointSettings): Promise<string> {
  const path = resolve(settings.path)
  const look = (): Promise<PathProbe> => probePath(path, settings.timeoutMs ?? PROBE_TIMEOUT_MS)
  let probe = await look()
  if (isDead(probe) || (probe.is === 'silent' && (await wasKilled(path)))) {
    await takeAway(path)
    probe = await look()
  }
  if (isNothing(probe) && (await settings.mayMake?.(path)) === true) {
    await makeMountpoint(path)
    probe = await look()
  }
  if (probe.is === 'silent' || isDead(probe)) throw deadMount(path, probe)
  if (probe.is === 'error') throw cannotUse(path, probe.code)
  if (probe.is === 'something-else') throw new DriveError('usage', `${path} is not a directory.`)
  const { realPath } = probe
  await refuseMounted(realPath)
  if (!probe.isEmpty) {
    throw new DriveError('usage', `${path} is not empty.`, {
      hint: 'A drive hides what is below it. Choose an empty directory.',
    })
  }
  refuseOwnDirectories(realPath, settings.ownDirectories)
  return realPath
}

async function takeAway(path: string): Promise<void> {
  if ((await findMount(path))?.type === DRIVE_TYPE) await unmountHung(path)
}

/** True when the drive at a path was killed, and a thread of it still waits for the kernel, which waits for the drive. */
async function wasKilled(path: string): Promise<boolean> {
  const drive = await new DriveRegistry(findRegistryDirs()).find(path)
  return drive !== undefined && (await readProcessStat(drive.pid))?.hasEnded !== false
}

function isNothing(probe: PathProbe): boolean {
  return probe.is === 'error' && probe.code === 'ENOENT'
}

async function makeMountpoint(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true })
  } catch (error) {
    throw fromFileSystem(error, `Making ${path}`)
  }
}

/** The process that served what is mounted has ended. */
function isDead(probe: PathProbe): boolean {
  return probe.is === 'error' && probe.code === 'ENOTCONN'
}

function deadMount(path: string, probe: PathProbe): DriveError {
  const what =
    probe.is === 'silent'
      ? 'has a mount on it that does not answer'
      : 'has a dead mount on it (transport endpoint is not connected)'
  return new DriveError('busy', `${path} ${what}.`, {
    hint: `Take it away: bagfs umount --now ${shellQuote(path)} (or fusermount -uz ${shellQuote(path)})`,
  })
}

function cannotUse(path: string, code: string): DriveError {
  if (code === 'ENOENT') {
    return new DriveError('usage', `${path} does not exist.`, {
      hint: `Make it: mkdir -p ${shellQuote(path)}`,
    })
  }
  if (code === 'ENOTDIR') return new DriveError('usage', `${path} is not a directory.`)
  if (code === 'EACCES') {
    return new DriveError('usage', `You have no access to ${path}.`)
  }
  return new DriveError('usage', `${path} cannot be used (${code}).`)
}

function refuseOwnDirectories(path: string, ownDirectories: readonly string[]): void {
  for (const own of ownDirectories) {
    if (isWithin(own, path)) {
      throw new DriveError('usage', `${path} would hide ${own}, where bagfs keeps its own data.`, {
        hint: 'Choose another directory for one of them.',
      })
    }
    if (isWithin(path, own)) {
      throw new DriveError('usage', `${path} lies in ${own}, where bagfs keeps its own data.`, {
        hint: 'Choose another directory for one of them.',
      })
    }
  }
}

function isWithin(path: string, directory: string): boolean {
  return (
    path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep)
  )
}
