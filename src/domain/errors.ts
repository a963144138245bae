/** What went wrong, in one word. kernel/errno.ts turns each into an errno, cli/ into a sentence. */
export type DriveErrorCode =
  // names, nodes and handles
  | 'not-found'
  | 'exists'
  | 'not-a-directory'
  | 'is-a-directory'
  | 'not-empty'
  | 'bad-handle'
  | 'bad-name'
  | 'bad-encoding'
  | 'name-too-long'
  | 'invalid'
  | 'no-attribute'
  | 'beyond-end'
  | 'busy'
  | 'not-permitted'
  | 'read-only'
  | 'unsupported'
  | 'cross-device'
  | 'stale'
  | 'interrupted'
  // space
  | 'no-space'
  | 'local-disk-full'
  | 'too-large'
  // content
  | 'corrupt'
  // the service: statuses of docs/SERVICE.md, and the lack of an answer
  | 'bad-request'
  | 'unauthorized'
  | 'forbidden'
  | 'gone'
  | 'rejected'
  | 'rate-limited'
  | 'server-error'
  | 'unavailable'
  | 'timed-out'
  | 'bad-answer'
  // this machine
  | 'local-io'
  | 'too-many-open'
  | 'locked'
  | 'usage'

/** Facts that travel with an error: shown to people and used for decisions, never parsed from text. */
export interface DriveErrorFacts {
  readonly cause?: unknown
  /** HTTP status, when the service answered. */
  readonly status?: number
  /** Milliseconds after which the service asked to be tried again (`Retry-After`). */
  readonly retryAfterMs?: number
  /** Names of the request fields that the service complained about (`detail[].loc`). */
  readonly fields?: readonly string[]
  /** True when the request may have been carried out although no answer arrived. */
  readonly answerLost?: boolean
  /** True when no connection came about, so that the service cannot be called silent. */
  readonly notReached?: boolean
  /** True when nothing was sent, because the service did not answer a moment ago. */
  readonly notAsked?: boolean
  /** What the person can do about it, one sentence. */
  readonly hint?: string
}

/** The one error class of this program. `message` is a plain sentence without the token. */
export class DriveError extends Error {
  readonly code: DriveErrorCode
  readonly facts: DriveErrorFacts

  constructor(code: DriveErrorCode, message: string, facts: DriveErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause })
    this.name = 'DriveError'
    this.code = code
    this.facts = facts
  }
}

/** A name that leads to nothing. */
export function noSuchFile(): DriveError {
  return new DriveError('not-found', 'There is no such file.', {
    hint: 'Look for its name with ls; bagfs refresh asks for what another machine has stored.',
  })
}

/** A node that a name led to before. */
export function goneFile(): DriveError {
  return new DriveError('not-found', 'This file is gone.')
}

/** What is begun, or waited for, when the drive is about to end. */
export function driveCloses(): DriveError {
  return new DriveError('interrupted', 'The drive is being closed.')
}

export function isDriveError(
  error: unknown,
  ...codes: readonly DriveErrorCode[]
): error is DriveError {
  return error instanceof DriveError && (codes.length === 0 || codes.includes(error.code))
}

/** Codes of failures that can pass by themselves. */
const PASSING: ReadonlySet<DriveErrorCode> = new Set([
  'rate-limited',
  'server-error',
  'unavailable',
  'timed-out',
  'bad-answer',
  'interrupted',
])

/** True when the same request may succeed later. */
export function canPass(error: unknown): boolean {
  return error instanceof DriveError && PASSING.has(error.code)
}

/** The `code` of a Node system error (`ENOENT`, `ENOSPC` ...), or undefined. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** True for an error of the local file system that says that there is nothing of this name. */
export function isAbsent(error: unknown): boolean {
  return systemErrorCode(error) === 'ENOENT'
}

/** What to do where the limit of open files is reached. */
export const MORE_OPEN_FILES = 'Raise the limit: ulimit -n 1024'

/** Translates an error of the local file system (Node's `fs`) at the door where it enters. */
export function fromFileSystem(error: unknown, what: string): DriveError {
  if (error instanceof DriveError) return error
  const code = systemErrorCode(error)
  if (code === 'ENOSPC' || code === 'EDQUOT') return localDiskFull(what, error)
  if (code === 'EMFILE' || code === 'ENFILE') {
    const facts = { cause: error, hint: MORE_OPEN_FILES }
    return new DriveError('too-many-open', `${what}: too many files are open.`, facts)
  }
  const words = error instanceof Error ? error.message : String(error)
  return new DriveError('local-io', `${what}: ${words}`, { cause: error })
}

/** `what` begins a sentence: `The outbox cannot be written`. */
export function localDiskFull(what: string, cause?: unknown): DriveError {
  const inner = what.charAt(0).toLowerCase() + what.slice(1)
  return new DriveError('local-disk-full', `The local disk is full: ${inner}.`, {
    cause,
    hint: 'Free some space on it, then try again.',
  })
}
