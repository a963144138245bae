import { execFile } from 'node:child_process'
import { readdir, readlink, writeFile } from 'node:fs/promises'
import { platform } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findMount, listMounts } from '../disk/find-mount.ts'
import { ifThere } from '../disk/if-there.ts'
import { DriveError, isAbsent, systemErrorCode } from '../domain/errors.ts'

const run = promisify(execFile)
const UNMOUNT_TIMEOUT_MS = 10_000
/** To write what is in maps of files needs no network, but for a file that is here in part. */
const LONGEST_SYNC_MS = 5_000
/** A program that only looks at each mount of the machine, as `df` and desktops do, has gone by then. */
const BUSY_TRIES = 10
const BUSY_PAUSE_MS = 100

/** Unmounts a drive, from whichever process. Rejects `busy` when programs use it for longer than a moment, unless `lazy`. */
export async function unmountPath(
  mountpoint: string,
  { lazy }: { readonly lazy: boolean },
): Promise<void> {
  await tryAll(
    mountpoint,
    platform() === 'darwin' ? onMac(mountpoint, lazy) : onLinux(mountpoint, lazy),
  )
}

/**
 * As `unmountPath`, by the process that serves the drive. To start the program that unmounts, the system closes in it what
 * this process has open. The kernel tells the drive of that, and this thread could not answer: neither would ever go on.
 * Where the drive is mounted a second time, in another namespace too, the kernel neither refuses nor writes what is in maps.
 */
export async function unmountOwn(
  mountpoint: string,
  options: { readonly lazy: boolean },
): Promise<void> {
  const open = await ownFilesIn(mountpoint)
  if (open.length > 0) {
    throw new DriveError('busy', `${mountpoint} is in use by the program that serves it.`, {
      hint: `Close ${open.join(', ')} in it first.`,
    })
  }
  const [second] = options.lazy ? [] : await otherMountsOf(mountpoint)
  if (second !== undefined) {
    throw new DriveError('busy', `${mountpoint} is mounted at ${second}, too.`, {
      hint: 'Unmount that first, or leave at once with --now.',
    })
  }
  await writeMaps(mountpoint)
  await unmountPath(mountpoint, options)
}

/** Where else this process sees the same file system, or a part of it. */
async function otherMountsOf(mountpoint: string): Promise<readonly string[]> {
  const mounts = (await ifThere(listMounts())) ?? []
  const own = mounts.findLast((each) => each.mountpoint === mountpoint)
  return mounts
    .filter((each) => each.device === own?.device && each.mountpoint !== mountpoint)
    .map((each) => each.mountpoint)
}

/** A failure is told to the programs whose maps they are, by their next msync. */
async function writeMaps(mountpoint: string): Promise<void> {
  if (platform() !== 'linux') return
  const timer = new AbortController()
  const written = run('sync', ['-f', '--', mountpoint]).catch(toldToPrograms)
  const tooLong = sleep(LONGEST_SYNC_MS, undefined, { signal: timer.signal }).catch(toldToPrograms)
  await Promise.race([written, tooLong])
  timer.abort()
}

function toldToPrograms(): void {
  // Nothing is left to do about it here.
}

/** Paths below a mountpoint that this process has open. To ask for them asks no file system but that of /proc. */
async function ownFilesIn(mountpoint: string): Promise<readonly string[]> {
  const descriptors = (await ifThere(readdir('/proc/self/fd'))) ?? []
  const paths = await Promise.all(
    descriptors.map((descriptor) => ifThere(readlink(`/proc/self/fd/${descriptor}`))),
  )
  return paths.filter((path): path is string => path !== undefined && isBelow(path, mountpoint))
}

function isBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`)
}

/**
 * Takes the mount of a drive away that answers no more, and has the kernel end what waits for it. A drive that was killed
 * while one of its threads waited for the kernel, and the kernel for the drive, ends in no other way.
 */
export async function unmountHung(mountpoint: string): Promise<void> {
  if (platform() !== 'linux') return unmountPath(mountpoint, { lazy: true })
  await endConnection(mountpoint)
  const byRoot: Ways = process.getuid?.() === 0 ? [['umount', ['-f', '-l', '--', mountpoint]]] : []
  return tryAll(mountpoint, [...byRoot, ...onLinux(mountpoint, true)])
}

/**
 * Root and the user of the drive may, where the control file system is mounted (Linux, Documentation/filesystems/fuse.rst).
 * Where it is not, `umount -f` by root does it.
 */
async function endConnection(mountpoint: string): Promise<void> {
  const id = (await findMount(mountpoint))?.device.split(':')[1]
  if (id === undefined) return
  try {
    await writeFile(`/sys/fs/fuse/connections/${id}/abort`, '1', { flag: 'r+' })
  } catch (error) {
    if (!['ENOENT', 'EACCES'].includes(systemErrorCode(error) ?? '')) throw error
  }
}

async function tryAll(mountpoint: string, ways: Ways): Promise<void> {
  for (const [program, args] of ways) {
    try {
      await tryOften(program, args)
      return
    } catch (cause) {
      if (isAbsent(cause)) continue
      if (await isUnmounted(mountpoint)) return
      throw refusalOf(mountpoint, cause)
    }
  }
  throw new DriveError(
    'usage',
    'No program to unmount with: fusermount, fusermount3 and umount are missing.',
  )
}

async function tryOften(program: string, args: readonly string[]): Promise<void> {
  for (let triesLeft = BUSY_TRIES - 1; ; triesLeft -= 1) {
    try {
      await run(program, args, { timeout: UNMOUNT_TIMEOUT_MS })
      return
    } catch (error) {
      if (triesLeft === 0 || !isBusy(error)) throw error
      await sleep(BUSY_PAUSE_MS)
    }
  }
}

/** The words of fusermount (`Device or resource busy`) and, in English, of umount(8) (`target is busy`). */
function isBusy(error: unknown): boolean {
  return wordsOf(error).includes('busy')
}

/** What the program wrote for people. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error) || !('stderr' in error)) return ''
  return typeof error.stderr === 'string' ? error.stderr.trim() : ''
}

async function isUnmounted(mountpoint: string): Promise<boolean> {
  return platform() === 'linux' && (await findMount(mountpoint)) === undefined
}

function refusalOf(mountpoint: string, cause: unknown): DriveError {
  const words = wordsOf(cause) || 'unmounting takes too long.'
  return new DriveError(
    'busy',
    isBusy(cause)
      ? `${mountpoint} is in use by a program.`
      : `${mountpoint} stays mounted: ${words}`,
    { cause, hint: 'Close what uses it (see `fuser -m`), or leave at once with --now.' },
  )
}

type Ways = readonly (readonly [program: string, args: readonly string[]])[]

function onMac(mountpoint: string, lazy: boolean): Ways {
  return [['umount', lazy ? ['-f', mountpoint] : [mountpoint]]]
}

/** In the order in which they are tried; umount(8) is there without fuse3, and does for root. */
function onLinux(mountpoint: string, lazy: boolean): Ways {
  const args = [lazy ? '-uz' : '-u', '--', mountpoint]
  return [
    ['fusermount', args],
    ['fusermount3', args],
    ['umount', lazy ? ['-l', '--', mountpoint] : ['--', mountpoint]],
  ]
}
