import { fdatasync } from 'node:fs'
import { open } from 'node:fs/promises'
import { promisify } from 'node:util'

/** Makes the content of an open file survive a power cut, and its length; takes a descriptor. */
export const syncData = promisify(fdatasync)

/** Makes the content of a file survive a power cut. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes the entries of a directory (creations, renames, removals) survive a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  await syncFile(path)
}
