import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { text } from 'node:stream/consumers'
import { DriveError } from '../domain/errors.ts'
import { leadsToDisk } from './leads-to-disk.ts'

/** What is at a path, looked at without any risk of hanging. */
export type PathProbe =
  | { readonly is: 'directory'; readonly realPath: string; readonly isEmpty: boolean }
  | { readonly is: 'something-else' }
  /** Looking failed with this code of Node, such as `ENOENT` or `ENOTCONN`. */
  | { readonly is: 'error'; readonly code: string }
  /** There was no answer in time: a mount whose program hangs. */
  | { readonly is: 'silent' }

type Calls = Pick<typeof fs, 'statSync' | 'realpathSync' | 'opendirSync'>

/** Uses nothing but what it is given: another process runs its text. */
function look(calls: Calls, path: string): PathProbe {
  try {
    if (!calls.statSync(path).isDirectory()) return { is: 'something-else' }
    const realPath = calls.realpathSync(path)
    const directory = calls.opendirSync(path)
    const isEmpty = directory.readSync() === null
    directory.closeSync()
    return { is: 'directory', realPath, isEmpty }
  } catch (error) {
    return { is: 'error', code: (error as NodeJS.ErrnoException).code ?? 'EIO' }
  }
}

const PROBE = `
process.stderr.write('begins')
process.stdout.write(JSON.stringify((${look.toString()})(require('node:fs'), process.argv[1])))
`

/** Looks at a path. Where that might hang, another process does: to start one takes longer than all else that a mount checks. */
export async function probePath(path: string, timeoutMs: number): Promise<PathProbe> {
  return (await leadsToDisk(path)) ? look(fs, path) : probeAside(path, timeoutMs)
}

/**
 * Looks at a path in a process of its own. A call that hangs in the kernel keeps its process from
 * ending, even by process.exit; that process can be killed, and ours stays free. The time counts from the moment at
 * which it begins to look: a busy machine may take seconds to start a process, and that is no silence of the path.
 */
async function probeAside(path: string, timeoutMs: number): Promise<PathProbe> {
  const child = spawn(process.execPath, ['-e', PROBE, path], { stdio: ['ignore', 'pipe', 'pipe'] })
  const failed = (cause: unknown): DriveError =>
    new DriveError('local-io', `Looking at ${path} failed.`, { cause })
  let limit: NodeJS.Timeout | undefined
  child.stderr.once('data', () => {
    limit = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
  })
  try {
    const [said, [code, signal]] = await Promise.all([
      text(child.stdout),
      once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>,
    ])
    if (code === 0) return JSON.parse(said) as PathProbe
    if (signal === 'SIGKILL') return { is: 'silent' }
    throw failed(`exit code ${String(code ?? signal)}`)
  } catch (error) {
    throw error instanceof DriveError ? error : failed(error)
  } finally {
    clearTimeout(limit)
  }
}
