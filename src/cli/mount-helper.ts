import { basename, dirname } from 'node:path'
import { parseArgs } from 'node:util'
import {
  MOUNT_OPTION_KEYS,
  MOUNT_OPTIONS,
  optionName,
  type MountOption,
  type MountOptionKey,
} from '../config/options.ts'
import { DriveError } from '../domain/errors.ts'
import { isProfileName } from '../profiles/profile.ts'

/** The name by which mount(8) finds the helper of a type of file system. */
const MOUNT_HELPER = 'mount.bagfs'

/** In the place of a profile: the default one. */
export const DEFAULT_SOURCE = 'none'

/** For mount(8), systemd and fstab; each drive is mounted with nosuid and nodev. */
const OF_OTHERS = new Set(
  `rw defaults auto noauto user nouser users owner group _netdev nofail suid nosuid dev nodev exec noexec sync async
  atime noatime relatime norelatime strictatime diratime nodiratime lazytime nolazytime`.split(
    /\s+/,
  ),
)
const WITH_VALUES_OF_OTHERS = /^(?:x-|X-|comment=|user=|helper=|uhelper=)/

/** mount(8) waits for the helper: the drive is in the background. */
export const NOT_HERE: readonly MountOptionKey[] = ['foreground', 'background']

/** Options of FUSE and mount(8) by their own names. */
const SAME: Readonly<Record<string, string>> = { ro: 'read-only', allow_other: 'allow-other' }

/**
 * The arguments of `bagfs` for those that mount(8) gives a helper: `PROFILE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]
 * [-t TYPE]`. Undefined when nothing is to be done (`-f`). Rejects `usage`.
 */
export function fromMountHelper(args: readonly string[]): readonly string[] | undefined {
  const { positionals, values } = parse(args)
  const [source = '', directory, ...more] = positionals
  if (directory === undefined || more.length > 0) {
    throw new DriveError('usage', `${MOUNT_HELPER} is for mount(8).`, {
      hint: 'mount -t bagfs PROFILE DIRECTORY; or bagfs mount PROFILE:DIRECTORY',
    })
  }
  if (values.f === true) return undefined
  const options = (values.o ?? []).flatMap((list) => list.split(','))
  const flags = options.flatMap((option) => toFlag(option, values.s === true))
  return ['mount', ...flags, '--', toTarget(source, directory)]
}

function parse(args: readonly string[]) {
  const flag = { type: 'boolean' } as const
  const value = { type: 'string' } as const
  const options = {
    s: { ...flag, short: 's' },
    f: { ...flag, short: 'f' },
    n: { ...flag, short: 'n' },
    v: { ...flag, short: 'v' },
    N: { ...value, short: 'N' },
    t: { ...value, short: 't' },
    o: { ...value, short: 'o', multiple: true },
  } as const
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new DriveError('usage', `${MOUNT_HELPER}: ${why}`, { cause: error })
  }
}

/** A profile that is not named is none of the words of `PROFILE:DIRECTORY`; mount(8) gives the whole path of the directory. */
function toTarget(source: string, directory: string): string {
  const path = directory.startsWith('/') ? directory : `./${directory}`
  const name = nameOf(source)
  if (name === DEFAULT_SOURCE) return path
  if (isProfileName(name)) return `${name}:${path}`
  throw new DriveError('usage', 'What is mounted has to be the name of a profile.', {
    hint: `bagfs profiles lists them; ${DEFAULT_SOURCE} means the default one. In the fstab: PROFILE DIRECTORY bagfs OPTIONS 0 0`,
  })
}

/** mount(8) makes a whole path of a name that something has in the directory where it runs: at boot, in `/`. */
function nameOf(source: string): string {
  return dirname(source) === process.cwd() ? basename(source) : source
}

/** Options of others are left out; with `isSloppy`, those that none knows, too. */
function toFlag(option: string, isSloppy: boolean): readonly string[] {
  if (isOfOthers(option)) return []
  const [written = '', ...rest] = option.split('=')
  const value = rest.length === 0 ? undefined : rest.join('=')
  const key = keyOf(written)
  if (key !== undefined) return [flagOf(key, written, value)]
  const denied = value === undefined ? flagDeniedBy(written) : undefined
  if (denied !== undefined) return [`--no-${optionName(denied)}`]
  if (isSloppy) return []
  throw unknown(written)
}

function keyOf(written: string): MountOptionKey | undefined {
  const name = SAME[written] ?? written
  return MOUNT_OPTION_KEYS.find((key) => optionName(key) === name && !NOT_HERE.includes(key))
}

function flagOf(key: MountOptionKey, written: string, value: string | undefined): string {
  const name = optionName(key)
  const { kind }: MountOption = MOUNT_OPTIONS[key]
  if (value === undefined) return `--${name}`
  if (kind !== 'flag') return `--${name}=${value}`
  if (value !== 'false' && value !== 'true') throw unknown(written)
  return value === 'false' ? `--no-${name}` : `--${name}`
}

/** The flag that `noNAME` turns off, as mount(8) writes such things. */
function flagDeniedBy(written: string): MountOptionKey | undefined {
  const key = keyOf(/^no-?(.+)$/.exec(written)?.[1] ?? '')
  return key !== undefined && MOUNT_OPTIONS[key].kind === 'flag' ? key : undefined
}

function isOfOthers(option: string): boolean {
  return option === '' || OF_OTHERS.has(option) || WITH_VALUES_OF_OTHERS.test(option)
}

/** What is no option may be a secret at the wrong place. */
function unknown(written: string): DriveError {
  const called = /^[a-z_-]{1,32}$/i.test(written) ? `"${written}"` : 'One of the options'
  return new DriveError('usage', `${called} is no option of a drive.`, {
    hint: 'They are those of bagfs mount, without dashes: cache-size=20GB, write-back.',
  })
}
