import { DriveError, isDriveError } from '../domain/errors.ts'
import type { PutIntent } from '../intents/intent.ts'
import { failedForWantOfRoom } from './failure.ts'
import type { UploaderDeps } from './ports.ts'

type RoomDeps = Pick<UploaderDeps, 'service' | 'log'>

const HINT = 'Delete something from the account, or get more space.'

/** Why an upload failed. */
export interface Refused {
  readonly error: unknown
  /** It was refused, and the account has room for it now, whatever it had then. */
  readonly hasRoom: boolean
}

/** The service has no status of its own for "full": a refusal is that when the account has no room. */
export async function explainRefusal(
  deps: RoomDeps,
  error: unknown,
  { length, signal }: { readonly length: number; readonly signal: AbortSignal },
): Promise<Refused> {
  const hasRoom = false
  // No file is missing: there is nothing at that address that takes uploads.
  if (isDriveError(error, 'gone')) {
    return { error: new DriveError('bad-answer', error.message, error.facts), hasRoom }
  }
  if (!isDriveError(error, 'bad-request', 'too-large')) return { error, hasRoom }
  const left = await roomLeft(deps, signal)
  if (left === undefined || left >= length) return { error, hasRoom: left !== undefined }
  const facts = { ...error.facts, cause: error, hint: HINT }
  return { error: new DriveError('no-space', error.message, facts), hasRoom }
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
