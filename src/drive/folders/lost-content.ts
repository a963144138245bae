import { join } from 'node:path'
import { sha256OfFile } from '../../disk/file-hash.ts'
import { isThere } from '../../disk/if-there.ts'
import { filesOf, type Operation } from './journal.ts'

interface Lost {
  readonly file: string
  readonly path: string
}

/**
 * Staged files that are not what the journal promised: a power cut came before they were on the platter. A line
 * without a sum is of content that was on the platter before.
 */
export async function findLost(
  filesDir: string,
  operations: readonly Operation[],
): Promise<readonly Lost[]> {
  const sums = new Map<string, Lost & { readonly sha256: string }>()
  for (const operation of operations) {
    for (const file of filesOf(operation)) sums.delete(file)
    if (operation.op !== 'file' || operation.sha256 === undefined) continue
    const { file, path, sha256 } = operation
    sums.set(file, { file, path, sha256 })
  }
  const lost: Lost[] = []
  for (const { file, path, sha256 } of sums.values()) {
    const staged = join(filesDir, file)
    if (!(await isThere(staged))) continue
    if ((await sha256OfFile(staged)) !== sha256) lost.push({ file, path })
  }
  return lost
}
