import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readTokenFile } from '../config/token.ts'
import { linkIfFree } from '../disk/link-if-free.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'
import { fromFileSystem } from '../domain/errors.ts'

/** The token of an embedded service, and where it is kept. */
export interface LocalToken {
  readonly token: string
  readonly path: string
  /** True when it was made just now. */
  readonly isNew: boolean
}

/**
 * The token that is kept with an embedded service's data, made (0600) when there is none yet. It has to
 * last as long as the data: each token is an account of its own.
 */
export async function keepLocalToken(dataDir: string): Promise<LocalToken> {
  const path = join(dataDir, 'token')
  const isNew = await makeTokenFile(dataDir, path)
  return { token: await readTokenFile(path), path, isNew }
}

/** Written aside and linked into place, so that no process reads half a token or replaces one. */
async function makeTokenFile(dataDir: string, path: string): Promise<boolean> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  try {
    await makePrivateDirectory(dataDir, 'data directory')
    await writeFile(draft, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
    try {
      return await linkIfFree(draft, path)
    } finally {
      await rm(draft, { force: true })
    }
  } catch (error) {
    throw fromFileSystem(error, `Making a token in ${dataDir}`)
  }
}
