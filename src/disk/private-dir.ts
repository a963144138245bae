import { dirname } from 'node:path'
import { syncDirectory } from './sync.ts'
import { makeDirectory } from './make-directory.ts'
import { refuseOpenPath, type PathName } from './open-path.ts'

/**
 * Makes a directory that only its owner may enter (0700), and those above it that are missing.
 * Rejects `usage` where other users could change it: see `refuseOpenPath`.
 */
export async function makePrivateDirectory(path: string, name?: PathName): Promise<void> {
  // Nothing is made through a link that another user has put there.
  await refuseOpenPath(path, name)
  const first = makeDirectory(path)
  if (first === undefined) return
  await syncDirectory(dirname(first))
  await refuseOpenPath(path, name)
}
