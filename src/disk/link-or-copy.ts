import { constants, linkSync } from 'node:fs'
import { copyFile, rename, rm } from 'node:fs/promises'
import { systemErrorCode } from '../domain/errors.ts'
import { ifThere } from './if-there.ts'

/** What a file system answers that cannot give this file another name there. */
const UNLINKABLE = ['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP']

/**
 * Gives a whole file another name that is free, or a copy where the file system wants that: what is at `to` is whole
 * at any time. False when there is no such file.
 */
export async function linkOrCopy(from: string, to: string): Promise<boolean> {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'ENOENT') return false
    if (code === undefined || !UNLINKABLE.includes(code)) throw error
  }
  const fresh = `${to}.copying`
  try {
    const copied = copyFile(from, fresh, constants.COPYFILE_FICLONE).then(() => true)
    if ((await ifThere(copied)) === undefined) return false
    await rename(fresh, to)
    return true
  } catch (error) {
    await rm(fresh, { force: true })
    throw error
  }
}
