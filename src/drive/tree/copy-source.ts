import { open } from 'node:fs/promises'
import { fromFileSystem } from '../../domain/errors.ts'
import type { Source } from './source.ts'

const CHUNK = 1 << 20

/** Writes the whole content to a new file. */
export async function copySource(source: Source, path: string): Promise<void> {
  const target = await open(path, 'w', 0o600)
  try {
    const buffer = Buffer.allocUnsafe(CHUNK)
    for (let position = 0; ;) {
      const count = await source.read(buffer, position)
      if (count === 0) return
      await target.write(buffer, 0, count, position)
      position += count
    }
  } catch (error) {
    throw fromFileSystem(error, 'Staged content cannot be copied')
  } finally {
    await target.close()
  }
}
