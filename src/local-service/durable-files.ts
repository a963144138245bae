import { randomUUID } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from '../disk/sync.ts'
import { fromFileSystem } from '../domain/errors.ts'

export const PRIVATE_FILE = 0o600
export const PRIVATE_DIRECTORY = 0o700

/** Settles as `work` does, with errors of the file system as DriveErrors that begin with `what`. */
export async function onDisk<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw fromFileSystem(error, what)
  }
}

/** Moves a file that is already on disk to its place, durably. Both must be on one file system. */
export async function moveDurably(from: string, directory: string, name: string): Promise<void> {
  await rename(from, join(directory, name))
  await syncDirectory(directory)
}

/** Writes a small file so that, whenever the machine stops, it is whole or as it was before. */
export async function writeDurably(
  place: { readonly incoming: string; readonly directory: string; readonly name: string },
  text: string,
): Promise<void> {
  const temporary = join(place.incoming, randomUUID())
  try {
    const handle = await open(temporary, 'wx', PRIVATE_FILE)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await moveDurably(temporary, place.directory, place.name)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
