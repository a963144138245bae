import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'

/** What a waiter lacks: bytes from `position` on, and how far past it to go on meanwhile. */
export interface Need {
  /** First byte of what the waiter asked for; those before `position` are here. */
  readonly from: number
  readonly position: number
  /** How many bytes from `position` on are wanted, at least. */
  readonly ahead: number
}

export interface Wait<Result> {
  /** Tries to get the result; undefined when something is still missing. */
  readonly attempt: () => Result | undefined
  /** What is missing; undefined when no download can bring it. */
  readonly need: () => Need | undefined
  /** Rejects `timed-out` after so many milliseconds, also while bytes come, once `isAnswered`. */
  readonly atMostMs?: number | undefined
  /** False while the service has said nothing: the download tells then why. */
  readonly isAnswered?: () => boolean
}

interface Waiter {
  /** True when the waiter was answered. */
  readonly wake: () => boolean
  readonly need: () => Need | undefined
  readonly reject: (error: unknown) => void
}

/**
 * The reads that wait for bytes of one bag. Each is answered in the turn in which its bytes landed,
 * so nothing can take them away again between the wake-up and the read.
 */
export class Waiters {
  readonly #waiters = new Set<Waiter>()
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#waiters.size
  }

  /** Rejects `interrupted` when the signal is aborted first. */
  wait<Result>(wait: Wait<Result>, signal?: AbortSignal): Promise<Result> {
    return new Promise((resolve, reject) => {
      const interrupt = (): void => {
        waiter.reject(new DriveError('interrupted', 'The read was interrupted.'))
      }
      const { atMostMs, isAnswered } = wait
      let cancel = (): void => undefined
      const limit = (): void => {
        if (atMostMs === undefined) return
        cancel = this.#clock.after(atMostMs, () => {
          if (isAnswered?.() === false) limit()
          else waiter.reject(new DriveError('timed-out', 'The content comes too slowly.'))
        })
      }
      const leave = (): void => {
        cancel()
        this.#waiters.delete(waiter)
        signal?.removeEventListener('abort', interrupt)
      }
      const waiter: Waiter = {
        need: wait.need,
        reject: (error) => {
          leave()
          reject(error instanceof Error ? error : new Error(String(error)))
        },
        wake: () => {
          try {
            const result = wait.attempt()
            if (result === undefined) return false
            leave()
            resolve(result)
          } catch (error) {
            waiter.reject(error)
          }
          return true
        },
      }
      this.#waiters.add(waiter)
      limit()
      if (signal?.aborted === true) interrupt()
      else signal?.addEventListener('abort', interrupt, { once: true })
    })
  }

  /** Answers every read whose bytes are here. */
  wake(): void {
    for (const waiter of [...this.#waiters]) waiter.wake()
  }

  /** What the waiting reads lack, in the order in which they came. */
  needs(): Need[] {
    const needs: Need[] = []
    for (const waiter of this.#waiters) {
      const need = waiter.need()
      if (need !== undefined) needs.push(need)
    }
    return needs
  }

  /** Rejects every read whose need is not `spared`; without `spared`, all reads. */
  fail(error: unknown, spared?: (need: Need | undefined) => boolean): void {
    for (const waiter of [...this.#waiters]) {
      if (spared?.(waiter.need()) !== true) waiter.reject(error)
    }
  }
}
