import { DriveError } from '../domain/errors.ts'

/** A signal whose reason is always a DriveError `interrupted`. */
export interface FollowedSignal {
  readonly signal: AbortSignal
  /** Lets go of the signals that are followed; they may outlive the call by far. */
  readonly dispose: () => void
}

/** Follows the caller's signal and the one of close(). (`AbortSignal.any` keeps a long-lived source growing on Node 20.) */
export function follow(caller: AbortSignal | undefined, closing: AbortSignal): FollowedSignal {
  const controller = new AbortController()
  const onCaller = (): void => {
    controller.abort(new DriveError('interrupted', 'The call was cancelled.'))
  }
  const onClosing = (): void => {
    controller.abort(new DriveError('interrupted', 'The connection to the service was closed.'))
  }
  if (closing.aborted) onClosing()
  if (caller?.aborted === true) onCaller()
  caller?.addEventListener('abort', onCaller, { once: true })
  closing.addEventListener('abort', onClosing, { once: true })
  return {
    signal: controller.signal,
    dispose: () => {
      caller?.removeEventListener('abort', onCaller)
      closing.removeEventListener('abort', onClosing)
    },
  }
}
