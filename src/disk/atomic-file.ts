import { closeSync, constants, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { open, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncDirectory } from './sync.ts'

/** Ends the name of what takes the place of a file in a moment. */
export const NEW_SUFFIX = '.new'

/** As `w`, but never through a link that has the name. */
const WRITE_ANEW = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW
/** As `a`, of a file that is there. */
const WRITE_ON = constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW

/**
 * Replaces the content of a file. A reader finds the old or the new one, whole, at any time. Pieces
 * are written one at a time. `durable` also waits until it would survive a power cut (file and
 * directory are fsynced); without it a kill of this process is survived. The file is private
 * (0600).
 */
export async function writeFileAtomic(
  path: string,
  data: string | Uint8Array | Iterable<string>,
  options: { readonly durable: boolean },
): Promise<void> {
  const temporary = `${path}.${process.pid}${NEW_SUFFIX}`
  try {
    const file = await open(temporary, WRITE_ANEW, 0o600)
    try {
      await writeFile(file, data)
      if (options.durable) await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  if (options.durable) await syncDirectory(dirname(path))
}

/**
 * As `writeFileAtomic` of something small that only a kill must not take, within the call: it goes to memory of the
 * kernel, and to hand it to another thread would take longer.
 */
export function replaceFileNow(path: string, text: string): void {
  const temporary = `${path}.${process.pid}${NEW_SUFFIX}`
  try {
    const fd = openSync(temporary, WRITE_ANEW, 0o600)
    try {
      writeFileSync(fd, text)
    } finally {
      closeSync(fd)
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

/**
 * Writes more at the end of a file that is there, within the call. A kill or a power cut leaves what was there before, and
 * behind it all of the text, a part of it, or nothing; an error may leave a part.
 */
export function appendNow(path: string, text: string): void {
  const fd = openSync(path, WRITE_ON)
  try {
    writeFileSync(fd, text)
  } finally {
    closeSync(fd)
  }
}
