import { DriveError } from '../domain/errors.ts'

/** @throws DriveError `interrupted` when the signal is aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw interrupted(signal)
}

export function interrupted(signal: AbortSignal): DriveError {
  return new DriveError('interrupted', 'Reading the folder was interrupted.', {
    cause: signal.reason,
  })
}
