import { spawnSync } from 'node:child_process'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { systemErrorCode } from '../../src/domain/errors.ts'

/** Puts a disk of its own under a directory, which holds no more than this; only root can. */
export function mountSmallDisk(path: string, bytes: number, files = 100_000): void {
  const limits = `size=${bytes},nr_inodes=${files},mode=700`
  const options = ['-t', 'tmpfs', '-o', limits, 'bagfs-test', path]
  const { status, stderr } = spawnSync('mount', options, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`A small disk cannot be mounted: ${stderr}`)
}

export function unmountSmallDisk(path: string): void {
  spawnSync('umount', ['-l', path])
}

/** Takes all the room that is left, as another program would; answers what gives it back. */
export function fillDisk(dir: string): () => void {
  const path = join(dir, 'of another program')
  const file = openSync(path, 'a')
  try {
    for (const bytes of [2 ** 20, 4096, 1]) writeUntilFull(file, Buffer.alloc(bytes))
  } finally {
    closeSync(file)
  }
  return () => {
    rmSync(path)
  }
}

/** Leaves room for no further file, or for so many; answers what gives it back. */
export function useUpFiles(dir: string, left = 0): () => void {
  const made: string[] = []
  try {
    for (;;) {
      const path = join(dir, `file ${made.length} of another program`)
      closeSync(openSync(path, 'w'))
      made.push(path)
    }
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOSPC') throw error
  }
  for (const path of made.splice(made.length - left)) rmSync(path)
  return () => {
    for (const path of made) rmSync(path)
  }
}

function writeUntilFull(file: number, bytes: Buffer): void {
  try {
    for (;;) writeSync(file, bytes)
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOSPC') throw error
  }
}
