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

/** Settles as `work` does, or rejects `interrupted` as soon as the signal is aborted. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  let onAbort = (): void => undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => {
      reject(interrupted(signal))
    }
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
