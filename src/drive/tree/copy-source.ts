import { open, type FileHandle } from 'node:fs/promises'
import { fromFileSystem } from '../../domain/errors.ts'
import { SparseWriter } from '../../zip/sparse-file.ts'
import type { Source } from './source.ts'

const CHUNK = 1 << 20

/** Writes the whole content to a new file, with holes for its zeros. */
export async function copySource(source: Source, path: string): Promise<void> {
  let target: FileHandle | undefined
  try {
    target = await open(path, 'w', 0o600)
    const writer = new SparseWriter(target)
    const buffer = Buffer.allocUnsafe(CHUNK)
    for (;;) {
      const count = await source.read(buffer, writer.length)
      if (count === 0) return
      await writer.write(buffer.subarray(0, count))
    }
  } catch (error) {
    throw fromFileSystem(error, 'Staged content cannot be copied')
  } finally {
    await target?.close()
  }
}
