import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { syncDirectory } from './sync.ts'

/**
 * Makes a directory (0700) and those above it that are missing: the first that was made, undefined when
 * there was nothing to make. Node's recursive mkdir never ends where a directory answers ENOENT although it
 * is there (below /proc), and tells ENOENT where the disk is full.
 */
export function makeDirectory(path: string): string | undefined {
  try {
    mkdirSync(path, { mode: 0o700 })
    return path
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'EEXIST' && statSync(path).isDirectory()) return undefined
    if (code !== 'ENOENT') throw error
  }
  const first = makeDirectory(dirname(path))
  mkdirSync(path, { mode: 0o700 })
  return first ?? path
}

/** The same; a power cut takes nothing of what it made. */
export async function makeDirectoryForGood(path: string): Promise<string | undefined> {
  const first = makeDirectory(path)
  if (first === undefined) return undefined
  for (let made = path; made.length >= first.length; made = dirname(made)) {
    await syncDirectory(dirname(made))
  }
  return first
}

/** As `makeDirectory`; throws the DriveError of what stands against it, with `what` as its beginning. */
export function makeDirectoryFor(what: string, path: string): void {
  try {
    makeDirectory(path)
  } catch (error) {
    throw fromFileSystem(error, what)
  }
}
