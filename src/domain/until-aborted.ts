import { deferred } from './deferred.ts'

/**
 * Settles as `work` does, or rejects with what `reason` answers as soon as the signal is aborted; the work goes on for
 * others. A signal that is aborted already is the caller's to see.
 */
export async function untilAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  reason: (signal: AbortSignal) => Error,
): Promise<T> {
  if (signal === undefined) return work
  const aborted = deferred<never>()
  const onAbort = (): void => {
    aborted.reject(reason(signal))
  }
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
