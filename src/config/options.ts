import { homedir } from 'node:os'
import { join } from 'node:path'
import { DriveError } from '../domain/errors.ts'
import { parseDuration, parseKeepingTime } from './durations.ts'
import { parseMetricsAddress, type MetricsAddress } from './metrics-address.ts'
import { refuseEmpty } from './paths.ts'
import { parseServiceUrl } from './service-url.ts'
import { parseSize } from './sizes.ts'

/** How much the log says. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** What talks to the kernel. */
export const BRIDGES = ['auto', 'dev-fuse', 'fuse-native'] as const
export type BridgeChoice = (typeof BRIDGES)[number]

/** Whether the kernel reads cached files by itself, where it can. */
export const PASSTHROUGHS = ['auto', 'off'] as const
export type PassthroughChoice = (typeof PASSTHROUGHS)[number]

/** Parsers of option values, by kind. A parser rejects with `usage`. */
const PARSERS = {
  text: (text: string): string => text,
  path: expandHome,
  url: parseServiceUrl,
  size: parseSize,
  duration: parseDuration,
  keeping: parseKeepingTime,
  id: parseId,
  umask: parseUmask,
  level: parseLevel,
  bridge: parseBridge,
  passthrough: parsePassthrough,
  metrics: parseMetricsAddress,
  /** A flag without a value. */
  flag: (text: string): boolean => text === 'true',
  /** A flag whose value may be left out, which gives `true`. */
  'optional-path': (text: string): string | true => expandHome(text),
}

export type OptionKind = keyof typeof PARSERS

export interface MountOption {
  /** As commander and README write it. */
  readonly flags: string
  readonly kind: OptionKind
  /** As a person would type it; undefined where there is none, or where it depends on the machine. */
  readonly default?: string
  /** The default in words, where `default` is undefined. */
  readonly defaultWords?: string
  readonly help: string
  /** All that it takes, where that is a few words. */
  readonly words?: readonly string[]
}

/** The options of `bagfs mount`: the only place where they are written down. README's table is checked against it. */
export const MOUNT_OPTIONS = {
  url: {
    flags: '--url <url>',
    kind: 'url',
    defaultWords: 'BAGFS_URL',
    help: 'base URL of the service',
  },
  local: {
    flags: '--local [dir]',
    kind: 'optional-path',
    defaultWords: '~/.local/share/bagfs/local',
    help: 'no account: run the embedded service inside the mount, with its data in dir',
  },
  tokenFile: {
    flags: '--token-file <file>',
    kind: 'path',
    defaultWords: 'BAGFS_TOKEN',
    help: 'file that holds the API token',
  },
  stateDir: {
    flags: '--state-dir <dir>',
    kind: 'path',
    defaultWords: '~/.local/state/bagfs',
    help: 'where the outbox, the cache and the log are kept',
  },
  cacheSize: {
    flags: '--cache-size <size>',
    kind: 'size',
    default: '10GB',
    help: 'most that cached content may take on the local disk',
  },
  minFree: {
    flags: '--min-free <size>',
    kind: 'size',
    default: '1GB',
    help: 'space on the local disk that the cache leaves free',
  },
  thumbnails: {
    flags: '--thumbnails <size>',
    kind: 'size',
    default: '2MB',
    help: 'largest file that is fetched for a thumbnail; 0 fetches none',
  },
  keepDeleted: {
    flags: '--keep-deleted <time>',
    kind: 'keeping',
    default: '1d',
    help: 'how long deleted and replaced content is kept on this machine; 0 keeps none',
  },
  fetchDeleted: {
    flags: '--fetch-deleted <size>',
    kind: 'size',
    default: '16MiB',
    help: 'largest file that is fetched before it is deleted, for the trash; 0 fetches none',
  },
  listingTtl: {
    flags: '--listing-ttl <time>',
    kind: 'duration',
    default: '5s',
    help: 'how soon a change made elsewhere shows',
  },
  listingLag: {
    flags: '--listing-lag <time>',
    kind: 'duration',
    default: '15s',
    help: 'how late an upload may be listed; a lost answer is looked for so long',
  },
  folderSettle: {
    flags: '--folder-settle <time>',
    kind: 'duration',
    default: '2s',
    help: 'how long a folder rests before its changes are uploaded',
  },
  timeout: {
    flags: '--timeout <time>',
    kind: 'duration',
    default: '10s',
    help: 'how long the service may be silent; three times that while it moves content',
  },
  writeBack: {
    flags: '--write-back',
    kind: 'flag',
    default: 'false',
    help: 'closing a file waits for the local disk only; uploads follow',
  },
  readOnly: {
    flags: '--read-only',
    kind: 'flag',
    default: 'false',
    help: 'refuse every change',
  },
  allowOther: {
    flags: '--allow-other',
    kind: 'flag',
    default: 'false',
    help: 'let other users of this machine in',
  },
  uid: {
    flags: '--uid <number>',
    kind: 'id',
    defaultWords: 'yours',
    help: 'owner of entries that have none of their own',
  },
  gid: {
    flags: '--gid <number>',
    kind: 'id',
    defaultWords: 'yours',
    help: 'group of entries that have none of their own',
  },
  umask: {
    flags: '--umask <octal>',
    kind: 'umask',
    default: '022',
    help: 'permissions that are taken away from every entry',
  },
  description: {
    flags: '--description <text>',
    kind: 'text',
    defaultWords: 'none',
    help: 'description of new bags',
  },
  bridge: {
    flags: '--bridge <name>',
    kind: 'bridge',
    default: 'auto',
    help: `what talks to the kernel: ${BRIDGES.join(', ')} (auto: dev-fuse on Linux)`,
    words: BRIDGES,
  },
  passthrough: {
    flags: '--passthrough <choice>',
    kind: 'passthrough',
    default: 'auto',
    help: `whether the kernel reads cached files itself: ${PASSTHROUGHS.join(', ')} (auto: with --read-only, as root)`,
    words: PASSTHROUGHS,
  },
  metrics: {
    flags: '--metrics <address>',
    kind: 'metrics',
    defaultWords: 'none',
    help: 'serve figures for Prometheus at an address of this machine, such as 127.0.0.1:9469',
  },
  foreground: {
    flags: '--foreground',
    kind: 'flag',
    default: 'false',
    help: 'stay in this terminal; Ctrl-C unmounts',
  },
  background: {
    flags: '--background',
    kind: 'flag',
    default: 'true',
    help: 'return when the drive answers',
  },
  logLevel: {
    flags: '--log-level <level>',
    kind: 'level',
    default: 'info',
    help: `how much to log: ${LOG_LEVELS.join(', ')}`,
    words: LOG_LEVELS,
  },
  logJson: {
    flags: '--log-json',
    kind: 'flag',
    default: 'false',
    help: 'log as JSON, one object per line',
  },
} as const satisfies Record<string, MountOption>

export type MountOptionKey = keyof typeof MOUNT_OPTIONS
type ValueOf<Key extends MountOptionKey> = ReturnType<
  (typeof PARSERS)[(typeof MOUNT_OPTIONS)[Key]['kind']]
>

/** What is given of the options, parsed; those that are left out are not there. */
export type MountFlags = { readonly [Key in MountOptionKey]?: ValueOf<Key> }

type OptionValue = string | number | boolean | MetricsAddress

/** Parses the value of an option. Rejects with `usage`. */
export function parseOptionValue(kind: OptionKind, text: string): OptionValue {
  return PARSERS[kind](text)
}

export const MOUNT_OPTION_KEYS = Object.keys(MOUNT_OPTIONS) as readonly MountOptionKey[]

/** Its name in the config file, and after the `--` of its flag: `cache-size`. */
export function optionName(key: MountOptionKey): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** The environment variable that sets it: `BAGFS_CACHE_SIZE`. */
export function optionVariable(key: MountOptionKey): string {
  return `BAGFS_${optionName(key).replaceAll('-', '_').toUpperCase()}`
}

/**
 * Parses what an environment variable or the config file says: as after the flag, `true` or `false` for one without
 * a value. Undefined where it says that an optional value is not given. Rejects with `usage`.
 */
export function parseWrittenValue<Key extends MountOptionKey>(
  key: Key,
  text: string,
): ValueOf<Key> | undefined {
  return parseWritten(MOUNT_OPTIONS[key].kind, text) as ValueOf<Key> | undefined
}

function parseWritten(kind: MountOption['kind'], text: string): OptionValue | undefined {
  if (kind === 'optional-path' && text === 'true') return true
  if (kind === 'optional-path' && text === 'false') return undefined
  if (kind === 'flag' && !['true', 'false'].includes(text)) {
    throw new DriveError('usage', `"${text}" is neither true nor false.`)
  }
  return parseOptionValue(kind, text)
}

/** The value of an option that has a default in the table. */
export function withDefault<Key extends MountOptionKey>(
  flags: MountFlags,
  key: (typeof MOUNT_OPTIONS)[Key] extends { readonly default: string } ? Key : never,
): ValueOf<Key> {
  const typed = flags[key]
  if (typed !== undefined) return typed
  const option: MountOption = MOUNT_OPTIONS[key]
  return PARSERS[option.kind](option.default ?? '') as ValueOf<Key>
}

/** Only a shell expands a tilde, and that at the start of a word alone: `--state-dir=~/x` reaches us with it. */
function expandHome(path: string): string {
  refuseEmpty(path)
  return path.startsWith('~/') ? join(homedir(), path.slice(2)) : path
}

function parseId(text: string): number {
  const id = /^\d+$/.test(text) ? Number(text) : NaN
  // 2^32-1 means "no such user" to the kernel.
  if (id < 2 ** 32 - 1) return id
  throw new DriveError('usage', `"${text}" is not a user or group number.`, {
    hint: 'The commands id -u and id -g show yours.',
  })
}

function parseUmask(text: string): number {
  if (/^0?[0-7]{1,3}$/.test(text)) return Number.parseInt(text, 8)
  throw new DriveError('usage', `"${text}" is not a umask.`, {
    hint: 'Write it in octal, such as 022 or 077.',
  })
}

function parseBridge(text: string): BridgeChoice {
  const bridge = BRIDGES.find((known) => known === text)
  if (bridge !== undefined) return bridge
  throw new DriveError('usage', `"${text}" is not a bridge.`, {
    hint: `Choose one of ${BRIDGES.join(', ')}.`,
  })
}

function parsePassthrough(text: string): PassthroughChoice {
  const choice = PASSTHROUGHS.find((known) => known === text)
  if (choice !== undefined) return choice
  throw new DriveError('usage', `"${text}" is no choice of passthrough.`, {
    hint: `Choose one of ${PASSTHROUGHS.join(', ')}.`,
  })
}

function parseLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === text)
  if (level !== undefined) return level
  throw new DriveError('usage', `"${text}" is not a log level.`, {
    hint: `Choose one of ${LOG_LEVELS.join(', ')}.`,
  })
}
