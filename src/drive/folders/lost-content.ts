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
 * Staged files that the last of these operations has at a path, and that are gone, or not what the journal promised: a
 * power cut came before they were on the platter, or the disk has damaged them. Sums are compared where `areSumsOpen`.
 */
export async function findLost(
  filesDir: string,
  operations: readonly Operation[],
  { areSumsOpen }: { readonly areSumsOpen: boolean },
): Promise<readonly Lost[]> {
  const there = new Set(await readdir(filesDir))
  const changed = areSumsOpen ? await findChanged(filesDir, operations, there) : new Set<string>()
  const lost = new FollowedPaths<Omit<Lost, 'path'>>()
  for (const operation of operations) {
    const { op, path } = operation
    if (op === 'attributes') continue
    // Whatever comes to the path of a file takes its place.
    for (const below of lost.below(op === 'rename' ? operation.to : path)) lost.delete(below)
    if (op === 'rename') lost.rename(path, operation.to)
    for (const { file, path: at } of filePathsOf(operation)) {
      const isMissing = !there.has(file)
      if (isMissing || changed.has(file)) lost.set(at, { file, isMissing, hasMoved: op === 'tree' })
    }
  }
  return Array.from(lost.entries(), ([path, each]) => ({ ...each, path }))
}

/** A line without a sum is of content that was on the platter before. */
async function findChanged(
  filesDir: string,
  operations: readonly Operation[],
  there: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const promised = new Map<string, string>()
  for (const { file, sha256 } of operations.flatMap(filePathsOf)) {
    if (sha256 === undefined) promised.delete(file)
    else if (there.has(file)) promised.set(file, sha256)
  }
  const changed = new Set<string>()
  for (const [file, sha256] of promised) {
    if ((await sha256OfFile(join(filesDir, file))) !== sha256) changed.add(file)
  }
  return changed
}
