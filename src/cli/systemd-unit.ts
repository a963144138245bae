import { DriveError } from '../domain/errors.ts'

/** A drive that systemd starts for this user. */
export interface DriveUnit {
  readonly profile: string
  /** Absolute. */
  readonly mountpoint: string
}

export interface UnitSettings {
  /** Node and the program, as absolute paths. */
  readonly program: readonly string[]
  /** Where bagfs keeps things, where that is not as usual. */
  readonly variables: Readonly<Record<string, string>>
}

const LONGEST_NAME_BYTES = 255

/** As `systemd-escape --path --template bagfs-drive@.service` names it, but for the sign before the path. */
export function unitName(mountpoint: string): string {
  const escaped = [...Buffer.from(mountpoint.slice(1))].map(escapeByte).join('')
  const name = `bagfs-${escaped === '' ? '-' : escaped}.service`
  if (name.length <= LONGEST_NAME_BYTES) return name
  throw new DriveError('usage', `${mountpoint} is too long for the name of a service.`, {
    hint: 'Choose a directory with a shorter path.',
  })
}

function escapeByte(byte: number, index: number): string {
  const letter = String.fromCharCode(byte)
  if (letter === '/') return '-'
  if (/[\w:]/.test(letter) || (letter === '.' && index > 0)) return letter
  return `\\x${byte.toString(16).padStart(2, '0')}`
}

/**
 * The unit of a drive. The time to stop is long enough for what waits; a kill after it loses nothing, since the next
 * mount sends the rest. Of the processes of a drive only the first one is asked to stop.
 */
export function unitText(unit: DriveUnit, { program, variables }: UnitSettings): string {
  const { profile, mountpoint } = unit
  const command = [...program, 'mount', '--foreground', `${profile}:${mountpoint}`]
  return `[Unit]
Description=bagfs drive ${specifierSafe(mountpoint)} (${profile})
Documentation=man:bagfs(1)

[Service]
Type=notify
NotifyAccess=main
SyslogIdentifier=bagfs
ExecStart=${command.map(quoteWord).join(' ')}
${Object.entries(variables)
  .map(([name, value]) => `Environment=${quote(`${name}=${value}`)}\n`)
  .join('')}Restart=on-failure
RestartSec=10
TimeoutStopSec=10min
KillMode=mixed

[Install]
WantedBy=default.target

[X-Bagfs]
Profile=${profile}
Mountpoint=${mountpoint}
`
}

/** Undefined for a unit that bagfs did not write. */
export function parseUnit(text: string): DriveUnit | undefined {
  const [, profile, mountpoint] =
    /^\[X-Bagfs\]\nProfile=([^\n]+)\nMountpoint=([^\n]+)$/m.exec(text) ?? []
  return profile === undefined || mountpoint === undefined ? undefined : { profile, mountpoint }
}

function specifierSafe(text: string): string {
  return text.replaceAll('%', '%%')
}

/** A value between quotes (systemd.syntax(7)). */
function quote(text: string): string {
  return `"${specifierSafe(text).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}

/** A word of a command line, in which variables are replaced otherwise. */
function quoteWord(text: string): string {
  return quote(text.replaceAll('$', '$$$$'))
}
