import { makeDirectoryForGood } from './make-directory.ts'
import { refuseOpenPath, type PathName } from './open-path.ts'

/**
 * Makes a directory that only its owner may enter (0700), and those above it that are missing.
 * Rejects `usage` where other users could change it: see `refuseOpenPath`.
 */
export async function makePrivateDirectory(path: string, name?: PathName): Promise<void> {
  // Nothing is made through a link that another user has put there.
  await refuseOpenPath(path, name)
  if ((await makeDirectoryForGood(path)) === undefined) return
  await refuseOpenPath(path, name)
}
