import { DriveError, isDriveError } from '../domain/errors.ts'
import type { PutIntent } from '../domain/intent.ts'
import { failedForWantOfRoom } from './failure.ts'
import type { UploaderDeps } from './ports.ts'

type RoomDeps = Pick<UploaderDeps, 'service' | 'log'>

const HINT = 'Delete something from the account, or get more space.'

/** The service has no status of its own for "full": a refusal is that when the account has no room. */
export async function explainRefusal(
  deps: RoomDeps,
  error: unknown,
  { length, signal }: { readonly length: number; readonly signal: AbortSignal },
): Promise<unknown> {
  // No file is missing: there is nothing at that address that takes uploads.
  if (isDriveError(error, 'gone')) return new DriveError('bad-answer', error.message, error.facts)
  if (!isDriveError(error, 'bad-request', 'too-large')) return error
  const left = await roomLeft(deps, signal)
  if (left === undefined || left >= length) return error
  return new DriveError('no-space', error.message, { ...error.facts, cause: error, hint: HINT })
}

/** Throws `no-space` for content that the service had no room for, and has none for still: nothing is sent. */
export async function refuseWithoutRoom(
  deps: RoomDeps,
  put: PutIntent,
  { length, signal }: { readonly length: number; readonly signal: AbortSignal },
): Promise<void> {
  if (!failedForWantOfRoom(put)) return
  const left = await roomLeft(deps, signal)
  if (left === undefined || left >= length) return
  throw new DriveError('no-space', put.failure?.message ?? 'The account is full.', { hint: HINT })
}

/** Bytes; undefined when the service does not tell. */
async function roomLeft({ service, log }: RoomDeps, signal: AbortSignal) {
  try {
    return (await service.getAccount({ signal })).spaceLeft
  } catch (error) {
    log.debug({ error: String(error) }, 'The account could not be asked for its space.')
    return undefined
  }
}
