import { accessSync, constants, statSync } from 'node:fs'
import { release } from 'node:os'
import { dirname, resolve } from 'node:path'

/** Why drives cannot be mounted on this machine, or undefined when they can. */
export function whyNoMounts(): string | undefined {
  try {
    accessSync('/dev/fuse', constants.R_OK | constants.W_OK)
    return undefined
  } catch {
    return '/dev/fuse is missing or not ours to use'
  }
}

/**
 * True when mount tests can run. Says loudly when they are skipped; with BAGFS_REQUIRE_MOUNT=1, as in
 * CI, a machine that cannot mount fails instead.
 */
export function canMount(): boolean {
  const why = whyNoMounts()
  if (why === undefined) return true
  if (process.env['BAGFS_REQUIRE_MOUNT'] === '1') throw new Error(`Mount tests cannot run: ${why}.`)
  console.error(
    `\n*** MOUNT TESTS SKIPPED: ${why}. Nothing below proves that the drive mounts. ***\n`,
  )
  return false
}

/** As `canMount`, for tests that need a small disk of their own, which only root can make. */
export function canMountSmallDisk(): boolean {
  return isRootFor('full disks', 'can make a small disk for them')
}

/** As `canMount`, for tests that act as another user of the machine, which only root can. */
export function canActAsOther(): boolean {
  return isRootFor('other users', 'can act as another user')
}

/** As `canMount`, for tests of a mount that no process serves, which only root can make by itself. */
export function canMountDead(): boolean {
  return isRootFor('dead mounts', 'can make one')
}

function isRootFor(what: string, why: string): boolean {
  if (!canMount()) return false
  if (process.getuid?.() === 0) return true
  if (process.env['BAGFS_REQUIRE_MOUNT'] === '1') throw new Error(`Tests of ${what} need root.`)
  console.error(`\n*** TESTS OF ${what.toUpperCase()} SKIPPED: only root ${why}. ***\n`)
  return false
}

/** As `canActAsOther`, for tests in which another user runs this checkout: not where it, or Node, is in a closed directory. */
export function canRunAsOther(): boolean {
  if (!canActAsOther()) return false
  const closed = [resolve('.'), process.execPath].flatMap(closedAbove)
  if (closed.length === 0) return true
  const why = `other users may not enter ${closed.join(' and ')}, where this checkout or Node is`
  if (process.env['BAGFS_REQUIRE_MOUNT'] === '1') throw new Error(`Tests cannot run: ${why}.`)
  console.error(`\n*** TESTS OF OTHER USERS SKIPPED: ${why}. ***\n`)
  return false
}

/** Directories on the way to a path that other users may not pass. */
function closedAbove(path: string): readonly string[] {
  const above = dirname(path)
  const isClosed = (statSync(above).mode & 0o001) === 0
  return [...(above === path ? [] : closedAbove(above)), ...(isClosed ? [above] : [])]
}

/**
 * As `canMount`, for tests of what the kernel reads by itself: Linux 6.9 or newer, and root. Other machines skip them, in
 * CI too: on these nothing of it is used.
 */
export function canPassThrough(): boolean {
  if (!canMount()) return false
  const [major = 0, minor = 0] = release()
    .split('.')
    .map((part) => Number.parseInt(part, 10))
  const isNewEnough = major > 6 || (major === 6 && minor >= 9)
  if (isNewEnough && process.getuid?.() === 0) return true
  console.error('\n*** TESTS OF PASSTHROUGH SKIPPED: they need root on Linux 6.9 or newer. ***\n')
  return false
}
