import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncDirectory } from './atomic-file.ts'

/** Makes a directory that only its owner may enter (0700), and those above it that are missing. */
export async function makePrivateDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 })
  if (first !== undefined) await syncDirectory(dirname(first))
}
