import { copyFile } from 'node:fs/promises'
import { ifThere } from './if-there.ts'

/** Copies a whole file; false where there is none. Rejects as `ifThere`. */
export async function copyIfThere(from: string, to: string, what: string): Promise<boolean> {
  const copied = copyFile(from, to).then(() => true)
  return (await ifThere(copied, what)) === true
}
