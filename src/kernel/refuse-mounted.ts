import { findMount, isAutomount } from '../disk/find-mount.ts'
import { DriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'

/** What the kernel's table of mounts has as the type of a drive. */
export const DRIVE_TYPE = 'fuse.bagfs'

/** Throws `busy` for a path that something is mounted on, but for what mounts a drive at the first use. */
export async function refuseMounted(path: string): Promise<void> {
  const mount = await findMount(path)
  if (mount === undefined || (await isAutomount(path))) return
  const { type, source } = mount
  throw new DriveError('busy', `${path} has a file system on it already: ${source} (${type}).`, {
    hint: unmountHint(path, type),
  })
}

function unmountHint(path: string, type: string): string {
  if (type === DRIVE_TYPE) return `Unmount it: bagfs umount ${shellQuote(path)}`
  return type.startsWith('fuse') ? `Unmount it: fusermount -u ${path}` : 'Choose another directory.'
}
