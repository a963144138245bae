/** A drive that a click mounts and shows. */
export interface DesktopDrive {
  readonly profile: string
  /** Absolute, without a line end in it. */
  readonly mountpoint: string
}

export interface DesktopSettings {
  /** Node and the program, as absolute paths. */
  readonly program: readonly string[]
  /** Where bagfs keeps things, where that is not as usual. */
  readonly variables: Readonly<Record<string, string>>
}

/** A profile has one: it stands for the account. */
export function desktopFileName(profile: string): string {
  return `bagfs-${profile}.desktop`
}

/** The file of the desktop's menu (desktop-entry-spec 1.5): a click mounts and opens, the second action unmounts. */
export function desktopEntry(drive: DesktopDrive, { program, variables }: DesktopSettings): string {
  const { profile, mountpoint } = drive
  const given = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
  const command = [...(given.length === 0 ? [] : ['env', ...given]), ...program]
  const exec = (...args: readonly string[]): string => [...command, ...args].map(quote).join(' ')
  return `[Desktop Entry]
Type=Application
Name=${escape(profile)} (bagfs)
Comment=${escape(`Mount the drive at ${mountpoint} and open it`)}
Icon=folder-remote
Exec=${exec('desktop', 'open', `${profile}:${mountpoint}`)}
Terminal=false
Categories=Network;FileTransfer;
Actions=unmount;

[Desktop Action unmount]
Name=Unmount
Exec=${exec('umount', mountpoint)}
`
}

/** A value that is text. */
function escape(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\t', '\\t')
}

/** A word of a command line: what the shell would touch is quoted, and all of it is text once more. */
function quote(word: string): string {
  const quoted = `"${word.replaceAll(/["`$\\]/g, String.raw`\$&`)}"`
  return escape(quoted).replaceAll('%', '%%')
}
