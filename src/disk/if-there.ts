import { readFile, stat } from 'node:fs/promises'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'

/**
 * Settles as `work` does, or with undefined where there is nothing (ENOENT). With `what`, other errors of the file
 * system are DriveErrors that begin with it.
 */
export async function ifThere<T>(work: Promise<T>, what?: string): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw what === undefined ? error : fromFileSystem(error, what)
  }
}

/** As `ifThere`, for work that is done when it returns. */
export function ifThereNow<T>(work: () => T, what?: string): T | undefined {
  try {
    return work()
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw what === undefined ? error : fromFileSystem(error, what)
  }
}

/** True when a path leads to something. Rejects as `ifThere`. */
export async function isThere(path: string, what?: string): Promise<boolean> {
  return (await ifThere(stat(path), what)) !== undefined
}

/** What the JSON of a file says: undefined where there is none, or what is there is no JSON. Rejects as `ifThere`. */
export async function readJsonIfThere(path: string, what?: string): Promise<unknown> {
  const text = await ifThere(readFile(path, 'utf8'), what)
  if (text === undefined) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
