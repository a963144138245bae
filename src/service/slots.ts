/**
 * A fixed number of slots, given out in the order in which they were asked for. p-queue gives the
 * slot of a running task away as soon as its signal is aborted. Here the connection is in use until
 * the task has ended.
 */
export class Slots {
  #free: number
  /** The tasks that wait; each takes itself out when its signal is aborted. */
  readonly #waiting = new Set<() => void>()

  constructor(count: number) {
    this.#free = count
  }

  /** Resolves with the function that gives the slot back; rejects with the signal's reason. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(signal)
    let held = true
    return () => {
      if (held) this.#giveBack()
      held = false
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(onTurn)
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason is a DriveError, see follow()
        reject(signal.reason)
      }
      const onTurn = (): void => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      this.#waiting.add(onTurn)
      signal.addEventListener('abort', onAbort, { once: true })
    })
  }

  #giveBack(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
