/** Time as the program sees it, so that tests can move it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Resolves after `ms` milliseconds; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** Calls `task` after `ms` milliseconds without keeping the process alive; returns a cancel function. */
  after(ms: number, task: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const reason = (): Error =>
        signal?.reason instanceof Error ? signal.reason : new Error('The wait was aborted.')
      if (signal?.aborted === true) {
        reject(reason())
        return
      }
      const onAbort = (): void => {
        clearTimeout(timer)
        reject(reason())
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }, ms)
      signal?.addEventListener('abort', onAbort, { once: true })
    }),
  after: (ms, task) => {
    const timer = setTimeout(task, ms)
    timer.unref()
    return () => {
      clearTimeout(timer)
    }
  },
}
