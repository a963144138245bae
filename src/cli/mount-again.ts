import { dirname } from 'node:path'
import type { RunningDrive } from '../control/registry.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { stateDirOf } from './drive-dirs.ts'

/** What is known of a drive that is to be mounted again. */
export interface Mounted extends Pick<RunningDrive, 'mountpoint' | 'profile' | 'stateDir'> {
  readonly options?: readonly string[]
}

/** The command that mounts a drive as it was mounted, with the options that were typed then. */
export function mountAgain({ mountpoint, profile, options = [], stateDir }: Mounted): string {
  const target = profile === undefined ? mountpoint : `${profile}:${mountpoint}`
  const root = stateDir === undefined ? undefined : dirname(stateDir)
  const isElsewhere = root !== undefined && root !== stateDirOf({})
  const isTyped = options.some((option) => option.startsWith('--state-dir='))
  const own = isElsewhere && !isTyped ? [`--state-dir=${root}`] : []
  // The path of `--local` may be left out: what follows that would be taken for it.
  return ['bagfs', 'mount', target, ...own, ...options].map(shellQuote).join(' ')
}
