import { textFile, type VirtualFile } from './virtual-entry.ts'

/** In the root of a drive, desktops (gvfs) look here for its name and its icon. */
export const VOLUME_INFO = '.xdg-volume-info'

/** Of the themes' own names: a place that is elsewhere. */
const ICON = 'folder-remote'

/** What file managers show of the drive beside the local disks; without a name they show that of its directory. */
export function volumeInfo(name: string | undefined, madeAtMs: number): VirtualFile {
  const lines = ['[Volume Info]', ...(name === undefined ? [] : [`Name=${name}`]), `Icon=${ICON}`]
  const file = textFile(
    () => lines.map((line) => `${line}\n`).join(''),
    () => madeAtMs,
  )
  return { ...file, isForAll: true }
}
