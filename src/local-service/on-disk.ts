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
