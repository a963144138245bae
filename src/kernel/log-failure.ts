import { DriveError, isDriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { toErrno } from './errno.ts'

/** Answers that programs meet every day: not worth a line in the log. */
const EVERYDAY: ReadonlySet<DriveErrorCode> = new Set([
  'not-found',
  'exists',
  'not-a-directory',
  'is-a-directory',
  'not-empty',
  'no-attribute',
  'beyond-end',
  'unsupported',
  'bad-name',
  'bad-encoding',
  'name-too-long',
  'invalid',
  'read-only',
  'not-permitted',
  'cross-device',
])

/** Writes down why an operation failed; answers the errno that the program is told, a positive one. */
export function logFailure(
  log: Logger,
  fields: { readonly operation: string } & Readonly<Record<string, unknown>>,
  error: unknown,
): number {
  if (!(error instanceof DriveError)) {
    const stack = error instanceof Error ? error.stack : String(error)
    log.error({ ...fields, stack }, 'A bug: please report this.')
  } else if (isEveryday(error)) {
    log.debug({ ...fields, code: error.code }, error.message)
  } else {
    log.warn({ ...fields, code: error.code }, error.message)
  }
  return toErrno(error)
}

function isEveryday(error: DriveError): boolean {
  // The kernel looks again then, and the program meets what it finds.
  const isVanished = error.code === 'stale' && isDriveError(error.cause, 'not-found')
  return EVERYDAY.has(error.code) || isVanished
}
