import { resolve } from 'node:path'
import {
  MOUNT_OPTIONS,
  parseWrittenValue,
  type MountFlags,
  type MountOptionKey,
  type OptionKind,
} from '../config/options.ts'
import { findDefaultPaths } from '../config/paths.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { MountOptions } from './mount-options.ts'

/** Options that are no options of the table, or are read otherwise. */
type OwnKey = 'url' | 'token' | 'mountpoint' | 'log'
type SharedKey = Exclude<keyof MountOptions, OwnKey>
/** What makes sense for a command only. */
type CommandKey =
  'url' | 'local' | 'tokenFile' | 'foreground' | 'background' | 'logLevel' | 'logJson'

/** The options of the table that a program gives; a new one of the table does not compile without a place here. */
const SHARED: Readonly<Record<SharedKey | Exclude<MountOptionKey, CommandKey>, true>> = {
  stateDir: true,
  cacheSize: true,
  minFree: true,
  thumbnails: true,
  keepDeleted: true,
  fetchDeleted: true,
  listingTtl: true,
  listingLag: true,
  folderSettle: true,
  timeout: true,
  writeBack: true,
  readOnly: true,
  allowOther: true,
  uid: true,
  gid: true,
  umask: true,
  description: true,
  bridge: true,
  passthrough: true,
  metrics: true,
}
const OWN: Readonly<Record<OwnKey, true>> = {
  url: true,
  token: true,
  mountpoint: true,
  log: true,
}

/** Reads options by the parsers of the table. Throws `usage` for an unknown one, or a value that it cannot have. */
export function readMountOptions(options: MountOptions): {
  readonly flags: MountFlags
  readonly stateDir: string
} {
  for (const name of Object.keys(options)) {
    if (!(name in SHARED) && !(name in OWN)) {
      throw new DriveError('usage', `mount knows no option ${name}.`, {
        hint: 'They are those of bagfs mount, in camel case, such as cacheSize.',
      })
    }
  }
  const keys = Object.keys(SHARED) as readonly SharedKey[]
  const flags: MountFlags = Object.fromEntries(
    keys.flatMap((key) => {
      const value = options[key]
      return value === undefined ? [] : [[key, parseShared(key, value)] as const]
    }),
  )
  return { flags, stateDir: resolve(flags.stateDir ?? findDefaultPaths().stateDir) }
}

function parseShared(key: SharedKey, value: string | number | boolean) {
  try {
    return parseWrittenValue(key, inWriting(MOUNT_OPTIONS[key].kind, value))
  } catch (error) {
    if (!isDriveError(error, 'usage')) throw error
    throw new DriveError('usage', `${key}: ${error.message}`, error.facts)
  }
}

/** A value as a person would type it. */
function inWriting(kind: OptionKind, value: string | number | boolean): string {
  if (typeof value !== 'number') return String(value)
  if (kind === 'duration' || kind === 'keeping') return `${value}ms`
  return kind === 'umask' ? value.toString(8) : String(value)
}
