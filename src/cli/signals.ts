import { DriveError } from '../domain/errors.ts'

export interface StopSignals {
  /** Aborted by the first SIGINT, SIGTERM or SIGHUP. */
  readonly stop: AbortSignal
  /** Aborted by the second one. */
  readonly now: AbortSignal
  /** Stops listening; the next signal ends the process as usual. */
  readonly ignore: () => void
}

/** `npm start` passes on the SIGINT that the terminal has sent to this process as well. */
const SAME_KEYPRESS_MS = 500

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Listens for the signals that ask this process to end. */
export function listenForStop(now: () => number = Date.now): StopSignals {
  const first = new AbortController()
  const second = new AbortController()
  let firstAtMs = 0
  const onSignal = (signal: NodeJS.Signals): void => {
    const reason = new DriveError('interrupted', `Stopped by ${signal}.`)
    if (!first.signal.aborted) {
      firstAtMs = now()
      first.abort(reason)
    } else if (now() - firstAtMs > SAME_KEYPRESS_MS) {
      second.abort(reason)
    }
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return {
    stop: first.signal,
    now: second.signal,
    ignore: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal)
    },
  }
}
