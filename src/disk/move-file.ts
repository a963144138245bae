import { constants, renameSync } from 'node:fs'
import { copyFile, rename, rm } from 'node:fs/promises'
import { systemErrorCode } from '../domain/errors.ts'
import { syncFile } from './sync.ts'

/** Renames, or copies to another disk and then removes the original: what is at `to` is whole at any time. */
export async function moveFile(from: string, to: string): Promise<void> {
  try {
    // Another thread would take longer to wake.
    renameSync(from, to)
    return
  } catch (error) {
    if (systemErrorCode(error) !== 'EXDEV') throw error
  }
  const fresh = `${to}.adopting`
  try {
    await copyFile(from, fresh, constants.COPYFILE_FICLONE)
    await syncFile(fresh)
    await rename(fresh, to)
  } catch (error) {
    await rm(fresh, { force: true })
    throw error
  }
  await rm(from)
}
