import { open, stat, type FileHandle } from 'node:fs/promises'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'

const BLOCK_BYTES = 64 * 1024

/** Waits a moment before the file is looked at again. */
export type Pause = () => Promise<void>

/**
 * What a file holds; with `pause`, without an end, what is added too. A file that takes its place, or begins anew, is
 * read from its start.
 */
export async function* readLog(path: string, pause?: Pause): AsyncGenerator<Buffer> {
  let file = await open(path, 'r').catch((error: unknown) => {
    throw fromFileSystem(error, 'Reading the log')
  })
  try {
    for (let position = 0; ;) {
      const block = Buffer.allocUnsafe(BLOCK_BYTES)
      const { bytesRead } = await file.read(block, 0, BLOCK_BYTES, position)
      position += bytesRead
      if (bytesRead > 0) {
        yield block.subarray(0, bytesRead)
        continue
      }
      if (pause === undefined) return
      await pause()
      const next = await fileInPlaceOf(file, path, position)
      if (next === undefined) continue
      await file.close()
      file = next
      position = 0
    }
  } finally {
    await file.close()
  }
}

/** The file to go on with from its start, when the one that was read has given way to it or is shorter now. */
async function fileInPlaceOf(
  file: FileHandle,
  path: string,
  position: number,
): Promise<FileHandle | undefined> {
  try {
    const [was, now] = [await file.stat(), await stat(path)]
    const isSame = was.ino === now.ino && was.dev === now.dev
    // What was written to the old one before it gave way is read first.
    if (isSame ? now.size >= position : was.size > position) return undefined
    return await open(path, 'r')
  } catch (error) {
    // Between two logs there is none for a moment.
    if (isAbsent(error)) return undefined
    throw fromFileSystem(error, 'Reading the log')
  }
}
