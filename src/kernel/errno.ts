import { constants } from 'node:os'
import { DriveError, type DriveErrorCode } from '../domain/errors.ts'

const { errno } = constants

/** The only place where an error becomes an errno. A code without a row does not compile. */
const ERRNO: Record<DriveErrorCode, number> = {
  'not-found': errno.ENOENT,
  exists: errno.EEXIST,
  'not-a-directory': errno.ENOTDIR,
  'is-a-directory': errno.EISDIR,
  'not-empty': errno.ENOTEMPTY,
  'bad-handle': errno.EBADF,
  'bad-name': errno.EINVAL,
  'bad-encoding': errno.EILSEQ,
  'name-too-long': errno.ENAMETOOLONG,
  invalid: errno.EINVAL,
  'no-attribute': errno.ENODATA,
  'beyond-end': errno.ENXIO,
  busy: errno.EBUSY,
  'not-permitted': errno.EPERM,
  'read-only': errno.EROFS,
  unsupported: errno.EOPNOTSUPP,
  'cross-device': errno.EXDEV,
  stale: errno.ESTALE,
  interrupted: errno.EINTR,
  'no-space': errno.ENOSPC,
  'local-disk-full': errno.ENOSPC,
  'too-large': errno.EFBIG,
  corrupt: errno.EIO,
  'bad-request': errno.EIO,
  unauthorized: errno.EACCES,
  forbidden: errno.EACCES,
  gone: errno.ENOENT,
  rejected: errno.EIO,
  'rate-limited': errno.EIO,
  'server-error': errno.EIO,
  unavailable: errno.EIO,
  'timed-out': errno.ETIMEDOUT,
  'bad-answer': errno.EIO,
  'local-io': errno.EIO,
  'too-many-open': errno.ENFILE,
  locked: errno.EBUSY,
  usage: errno.EINVAL,
}

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(errno).map(([name, number]) => [number, name]),
)

/** The name of an errno, a positive one: `ENOENT`. */
export function errnoName(number: number): string {
  return NAMES.get(number) ?? `errno ${number}`
}

/** What a program is told of an error. Anything but a DriveError is a bug of ours: EIO. */
export function toErrno(error: unknown): number {
  return error instanceof DriveError ? ERRNO[error.code] : errno.EIO
}
