import { rmdirSync, unlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { systemErrorCode } from '../domain/errors.ts'
import { ifThereNow } from './if-there.ts'

/**
 * Removes a small file, if there is one, before anything else runs. To wake another thread takes the processor longer
 * than that; a large file is for `rm` of node:fs/promises.
 */
export function removeFileNow(path: string): void {
  ifThereNow(() => {
    unlinkSync(path)
  })
}

/** Removes a directory, if there is one: at once when it is empty, and else with all that is in it. */
export async function removeDirectory(path: string): Promise<void> {
  try {
    ifThereNow(() => {
      rmdirSync(path)
    })
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOTEMPTY') throw error
    await rm(path, { recursive: true, force: true })
  }
}
