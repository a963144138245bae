import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'

/** A directory that each test finds new and empty. */
export function useTempDir(): { readonly path: string } {
  let path = ''
  beforeEach(async () => {
    path = await mkdtemp(join(tmpdir(), 'bagfs-state-'))
  })
  afterEach(async () => {
    await rm(path, { recursive: true, force: true })
  })
  return {
    get path() {
      return path
    },
  }
}
