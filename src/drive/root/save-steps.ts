import { DriveError } from '../../domain/errors.ts'
/**
 * What a name tells of its file.
 * - `junk`: works, but never leaves this machine
 * - `step`: a step of a save; held back until a rename publishes it, or for a while
 * - `trash`: a desktop's trash, refused
 * - `plain`: everything else
 */
export type NameClass = 'junk' | 'step' | 'trash' | 'plain'

/** Litter of desktops, and lock files that mean something on this machine only. */
const JUNK: readonly RegExp[] = [
  /^\.DS_Store$/,
  /^\._/,
  /^Thumbs\.db$/i,
  /^desktop\.ini$/i,
  /^\.directory$/,
  /^\.hidden$/,
  /^\.xdg-volume-info$/,
  /^autorun\.inf$/i,
  // Lock files: LibreOffice, Microsoft Office, Emacs, NFS.
  /^\.~lock\..*#$/,
  /^~\$/,
  /^\.#/,
  /^\.nfs[0-9a-f]+$/i,
  // Vim: probe of the directory, swap files.
  /^4913$/,
  /^\..*\.sw[a-px]$/,
]

/** Temporary names that programs write and then rename over the real one, and backups before that. */
const STEPS: readonly RegExp[] = [
  // GLib
  /^\.goutputstream-[A-Za-z0-9]{6}$/,
  /\.(tmp|temp|part|partial|crdownload|download|kate-swp|new)$/i,
  /^\.~/,
  /~$/,
  /^#.*#$/,
  // rsync: .name.XXXXXX
  /^\..+\.[A-Za-z0-9]{6}$/,
  // sed -i
  /^sed[A-Za-z0-9]{6}$/,
  // QSaveFile: name.XXXXXX, six letters of both cases
  /^.+\.(?=[A-Za-z]{6}$)(?=.*[a-z])(?=.*[A-Z])[A-Za-z]{6}$/,
  // mkstemp and LibreOffice
  /^tmp[A-Za-z0-9_]{6,8}$/,
  /^lu[a-z0-9]+\.tmp$/,
  // SQLite: rollback journal, write-ahead log and its index
  /-(journal|wal|shm)$/,
]

const TRASH = /^\.Trash(-\d+)?$/

export function classifyName(name: string): NameClass {
  if (TRASH.test(name)) return 'trash'
  if (JUNK.some((pattern) => pattern.test(name))) return 'junk'
  return STEPS.some((pattern) => pattern.test(name)) ? 'step' : 'plain'
}

/** Desktops must not move data to a trash that only this machine has. */
export function refuseTrash(name: string): void {
  if (classifyName(name) !== 'trash') return
  throw new DriveError('not-permitted', 'The drive has no trash: delete for good instead.')
}
