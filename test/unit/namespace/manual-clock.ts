import type { Clock } from '../../../src/domain/clock.ts'

/** A clock that a test moves; its timers fire in the order of their time. */
export class ManualClock implements Clock {
  #nowMs = 1_000_000
  readonly #timers = new Set<{ readonly atMs: number; readonly task: () => void }>()

  now(): number {
    return this.#nowMs
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.after(ms, resolve)
      signal?.addEventListener('abort', () => {
        cancel()
        reject(new Error('The sleep was ended.'))
      })
    })
  }

  after(ms: number, task: () => void): () => void {
    const timer = { atMs: this.#nowMs + ms, task }
    this.#timers.add(timer)
    return () => {
      this.#timers.delete(timer)
    }
  }

  /** Timers that have neither fired nor been cancelled. */
  get waiting(): number {
    return this.#timers.size
  }

  /** Moves the time; a negative number sets the clock back. */
  move(ms: number): void {
    this.#nowMs += ms
    const due = [...this.#timers].filter(({ atMs }) => atMs <= this.#nowMs)
    for (const timer of due.sort((one, other) => one.atMs - other.atMs)) {
      this.#timers.delete(timer)
      timer.task()
    }
  }
}
