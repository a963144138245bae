import { join } from 'node:path'
import { sha256OfFile } from '../../disk/file-hash.ts'
import { isThere } from '../../disk/if-there.ts'
import { filesOf, type Operation } from './journal.ts'

interface Lost {
  readonly file: string
  readonly path: string
  /** True for what moved in: it may be stored where it came from. */
  readonly hasMoved: boolean
}

interface Promised extends Lost {
  readonly sha256: string
}

/**
 * Staged files that are not what the journal promised: a power cut came before they were on the platter, or the disk has
 * damaged them. A line without a sum is of content that was on the platter before.
 */
export async function findLost(
  filesDir: string,
  operations: readonly Operation[],
): Promise<readonly Lost[]> {
  const promised = new Map<string, Promised>()
  for (const operation of operations) {
    for (const file of filesOf(operation)) promised.delete(file)
    for (const each of promisedBy(operation)) promised.set(each.file, each)
  }
  const lost: Lost[] = []
  for (const { sha256, ...each } of promised.values()) {
    const staged = join(filesDir, each.file)
    if (!(await isThere(staged))) continue
    if ((await sha256OfFile(staged)) !== sha256) lost.push(each)
  }
  return lost
}

function promisedBy(operation: Operation): readonly Promised[] {
  if (operation.op === 'tree') {
    return operation.entries.flatMap((entry) => {
      if (entry.type !== 'file' || entry.sha256 === undefined) return []
      const path = entry.path === '' ? operation.path : `${operation.path}/${entry.path}`
      return { path, file: entry.file, sha256: entry.sha256, hasMoved: true }
    })
  }
  if (operation.op !== 'file' || operation.sha256 === undefined) return []
  const { file, path, sha256 } = operation
  return [{ file, path, sha256, hasMoved: false }]
}
