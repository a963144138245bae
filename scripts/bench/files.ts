import { randomFillSync } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SeedFile } from './subject.ts'

const BLOCK = 2 ** 20

/** Makes a file of random bytes. */
export async function makeFile(directory: string, name: string, size: number): Promise<string> {
  const path = join(directory, name)
  const block = Buffer.allocUnsafe(BLOCK)
  const file = await open(path, 'w')
  try {
    for (let left = size; left > 0; left -= BLOCK) {
      randomFillSync(block)
      await file.write(block, 0, Math.min(left, BLOCK))
    }
  } finally {
    await file.close()
  }
  return path
}

/** Makes a directory with many files of random bytes. */
export async function makeFiles(
  directory: string,
  count: number,
  size: number,
): Promise<readonly SeedFile[]> {
  mkdirSync(directory, { recursive: true })
  const files: SeedFile[] = []
  for (let number = 0; number < count; number += 1) {
    const name = `file ${String(number).padStart(6, '0')}.txt`
    const path = join(directory, name)
    await writeFile(path, randomFillSync(Buffer.allocUnsafe(size)))
    files.push({ name, path })
  }
  return files
}
