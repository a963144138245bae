import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { sha256OfFile } from '../../disk/file-hash.ts'
import { FollowedPaths } from './followed-paths.ts'
import { filePathsOf, type Operation } from './journal.ts'

export interface Lost {
  readonly file: string
  readonly path: string
  /** True for what moved in: it may be stored where it came from. */
  readonly hasMoved: boolean
  /** False for what is there and is not what the journal promised. */
  readonly isMissing: boolean
}

/**
 * Staged files that are not what the journal promised: a power cut came before they were on the platter, or the disk has
 * damaged them. A line without a sum is of content that was on the platter before.
 */
export async function findChanged(
  filesDir: string,
  operations: readonly Operation[],
): Promise<readonly Lost[]> {
  const names = new Set(await readdir(filesDir))
  const promised = new Map<string, { readonly lost: Lost; readonly sha256: string }>()
  for (const operation of operations) {
    const hasMoved = operation.op === 'tree'
    for (const { file, path, sha256 } of filePathsOf(operation)) {
      promised.delete(file)
      if (sha256 === undefined || !names.has(file)) continue
      promised.set(file, { lost: { file, path, hasMoved, isMissing: false }, sha256 })
    }
  }
  const changed: Lost[] = []
  for (const { lost, sha256 } of promised.values()) {
    if ((await sha256OfFile(join(filesDir, lost.file))) !== sha256) changed.push(lost)
  }
  return changed
}

/** Staged files that are not there although the last of these operations still has them at a path. */
export async function findMissing(
  filesDir: string,
  operations: readonly Operation[],
): Promise<readonly Lost[]> {
  const names = new Set(await readdir(filesDir))
  const missing = new FollowedPaths<Lost>()
  const drop = (top: string): void => {
    for (const path of missing.below(top)) missing.delete(path)
  }
  for (const operation of operations) {
    const { op, path } = operation
    if (op === 'attributes') continue
    // Another file at the path of one, and whatever else comes there, takes its place.
    drop(op === 'rename' ? operation.to : path)
    if (op === 'rename') missing.rename(path, operation.to)
    for (const each of filePathsOf(operation)) {
      if (names.has(each.file)) continue
      const { file } = each
      missing.set(each.path, { file, path: each.path, hasMoved: op === 'tree', isMissing: true })
    }
  }
  return Array.from(missing.entries(), ([path, lost]) => ({ ...lost, path }))
}
