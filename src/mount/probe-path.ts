import { execFile } from 'node:child_process'
import { DriveError } from '../domain/errors.ts'

/** What is at a path, looked at without any risk of hanging. */
export type PathProbe =
  | { readonly is: 'directory'; readonly realPath: string; readonly isEmpty: boolean }
  | { readonly is: 'something-else' }
  /** Looking failed with this code of Node, such as `ENOENT` or `ENOTCONN`. */
  | { readonly is: 'error'; readonly code: string }
  /** There was no answer in time: a mount whose program hangs. */
  | { readonly is: 'silent' }

const PROBE = `
const fs = require('node:fs')
const look = (path) => {
  try {
    if (!fs.statSync(path).isDirectory()) return { is: 'something-else' }
    const realPath = fs.realpathSync(path)
    const directory = fs.opendirSync(path)
    const isEmpty = directory.readSync() === null
    directory.closeSync()
    return { is: 'directory', realPath, isEmpty }
  } catch (error) {
    return { is: 'error', code: error.code ?? 'EIO' }
  }
}
process.stdout.write(JSON.stringify(look(process.argv[1])))
`

/**
 * Looks at a path in a process of its own. A call that hangs in the kernel keeps its process from
 * ending, even by process.exit; that process can be killed, and ours stays free.
 */
export function probePath(path: string, timeoutMs: number): Promise<PathProbe> {
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      ['-e', PROBE, path],
      { timeout: timeoutMs, killSignal: 'SIGKILL' },
      (error, stdout) => {
        if (error === null) resolve(JSON.parse(stdout) as PathProbe)
        else if (error.killed === true) resolve({ is: 'silent' })
        else reject(new DriveError('local-io', `Looking at ${path} failed.`, { cause: error }))
      },
    )
  })
}
