import { open } from 'node:fs/promises'
import type { SyncFileSystem } from '../disk/group-sync.ts'
import { DriveError } from '../domain/errors.ts'

/** The C function, in a thread of Node's. */
type Syncfs = (fd: number, done: (error: unknown, result: number) => void) => void

/** syncfs(2), which Node does not offer; the package that calls C libraries is loaded at the first call. */
export function makeSyncFileSystem(): SyncFileSystem {
  let loaded: Promise<Syncfs | undefined> | undefined
  return async (path) => {
    loaded ??= loadSyncfs()
    const syncfs = await loaded
    if (syncfs === undefined) return false
    const directory = await open(path, 'r')
    try {
      await call(syncfs, directory.fd)
    } finally {
      await directory.close()
    }
    return true
  }
}

function call(syncfs: Syncfs, fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    syncfs(fd, (error, result) => {
      if (error === null && result === 0) resolve()
      else reject(new DriveError('local-io', 'The local disk does not keep what is written.'))
    })
  })
}

/** Undefined where the package has no binary for this machine, or the system has no such call. */
async function loadSyncfs(): Promise<Syncfs | undefined> {
  try {
    const { default: koffi } = await import('koffi')
    return koffi.load(null).func('int syncfs(int)').async as Syncfs
  } catch {
    return undefined
  }
}
