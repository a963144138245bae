import { link } from 'node:fs/promises'
import { systemErrorCode } from '../domain/errors.ts'

/** Gives a whole file a name, but in the place of no other; false when the name is taken. */
export async function linkIfFree(file: string, name: string): Promise<boolean> {
  try {
    await link(file, name)
    return true
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return false
    throw error
  }
}
