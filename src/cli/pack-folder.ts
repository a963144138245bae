import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fromFileSystem } from '../domain/errors.ts'
import type { PlanItem } from '../zip/plan.ts'
import { writeArchive } from '../zip/write.ts'

export interface ZipOptions {
  readonly signal?: AbortSignal
  /** Called with the path of what a zip cannot hold: sockets, pipes, devices. */
  readonly onSkipped: (path: string) => void
}

/** Zips a folder of this machine to `target`, which must not exist; resolves with its length in bytes. */
export async function packFolder(
  folder: string,
  target: string,
  options: ZipOptions,
): Promise<number> {
  const { signal, onSkipped } = options
  const { length } = await writeArchive(
    walkFolder(folder, '', onSkipped),
    target,
    signal === undefined ? {} : { signal },
  )
  return length
}

/** Everything in a folder by name, each directory before what it holds: the same folder gives the same zip. */
async function* walkFolder(
  directory: string,
  prefix: string,
  onSkipped: (path: string) => void,
): AsyncGenerator<PlanItem> {
  for (const name of await listNames(directory)) {
    const local = join(directory, name)
    const item = await toItem(local, `${prefix}${name}`)
    if (item === undefined) onSkipped(local)
    else yield item
    if (item?.type === 'directory') yield* walkFolder(local, `${item.path}/`, onSkipped)
  }
}

async function listNames(directory: string): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).sort()
  } catch (error) {
    throw fromFileSystem(error, `Reading the folder ${directory}`)
  }
}

async function toItem(local: string, path: string): Promise<PlanItem | undefined> {
  try {
    const stats = await lstat(local)
    const base = { path, mode: stats.mode & 0o777, mtimeMs: stats.mtimeMs }
    if (stats.isDirectory()) return { ...base, type: 'directory' }
    if (stats.isSymbolicLink()) {
      return { ...base, type: 'symlink', linkTarget: await readlink(local) }
    }
    if (!stats.isFile()) return undefined
    const file = { path: local, length: stats.size, mayChange: true }
    return { ...base, type: 'file', content: { from: 'file', ...file } }
  } catch (error) {
    throw fromFileSystem(error, `Reading ${local}`)
  }
}
