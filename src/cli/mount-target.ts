import { homedir } from 'node:os'
import { join } from 'node:path'
import { refuseEmpty } from '../config/paths.ts'
import { DriveError } from '../domain/errors.ts'
import { isProfileName } from '../profiles/profile.ts'

/**
 * `work:drive` is the directory drive for the account work; `./work:drive` is a directory of this name. A shell leaves the
 * tilde of `work:~/drive` as it is.
 */
export function parseTarget(target: string): {
  readonly mountpoint: string
  readonly profile?: string
} {
  refuseEmpty(target)
  const [before = '', ...rest] = target.split(':')
  if (rest.length === 0 || !isProfileName(before)) return { mountpoint: target }
  const mountpoint = rest.join(':')
  if (mountpoint !== '') return { profile: before, mountpoint: fromHome(mountpoint) }
  throw new DriveError('usage', `Where? ${target} names a profile and no directory.`, {
    hint: `Name an empty directory after it, such as ${target}drive.`,
  })
}

/** A shell expands a tilde only at the start of a word. */
export function fromHome(path: string): string {
  return path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(1)) : path
}
