import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncDirectory } from './atomic-file.ts'
import { refuseOpenPath } from './open-path.ts'

/**
 * Makes a directory that only its owner may enter (0700), and those above it that are missing.
 * Rejects `usage` where other users could change it: see `refuseOpenPath`.
 */
export async function makePrivateDirectory(path: string): Promise<void> {
  // Nothing is made through a link that another user has put there.
  await refuseOpenPath(path)
  const first = await mkdir(path, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  await syncDirectory(dirname(first))
  await refuseOpenPath(path)
}
