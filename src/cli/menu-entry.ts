import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { findDefaultPaths } from '../config/paths.ts'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'
import { desktopFileName } from './desktop-entry.ts'

/** Where desktops look for what this user has installed. */
export function entryPath(profile: string): string {
  const dataHome = dirname(dirname(findDefaultPaths().localDataDir))
  return join(dataHome, 'applications', desktopFileName(profile))
}

/** Takes the drive of a profile out of the desktop's menu; false where it is not in it. */
export async function removeEntry(profile: string): Promise<boolean> {
  const path = entryPath(profile)
  try {
    await rm(path)
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    throw fromFileSystem(error, `Removing ${path}`)
  }
}
