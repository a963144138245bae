import type { Clock } from '../domain/clock.ts'
import { isDriveError } from '../domain/errors.ts'
import type { ExchangeRequest } from './exchange.ts'

/**
 * The wait for an answer over all repeats of a call. What a try waited in vain is taken off the
 * limits of the next, so that a caller waits no longer than for one. The time in which an upload
 * moves is no such wait.
 */
export class Patience {
  readonly #clock: Clock
  readonly #request: ExchangeRequest
  #spentMs = 0

  constructor(clock: Clock, request: ExchangeRequest) {
    this.#clock = clock
    this.#request = request
  }

  /** Makes one try, with the limits that are left. */
  async spend<T>(attempt: (request: ExchangeRequest) => Promise<T>): Promise<T> {
    const startedAtMs = this.#clock.now()
    try {
      return await attempt(this.#limited())
    } catch (error) {
      if (!this.#moves() && isDriveError(error)) {
        this.#spentMs += Math.max(0, this.#clock.now() - startedAtMs)
      }
      throw error
    }
  }

  #moves(): boolean {
    const { body } = this.#request
    return body !== undefined && !Buffer.isBuffer(body)
  }

  #limited(): ExchangeRequest {
    const { limits } = this.#request
    const left = (limitMs: number): number => Math.max(1, limitMs - this.#spentMs)
    return {
      ...this.#request,
      limits: {
        ...limits,
        connectMs: left(limits.connectMs),
        answerMs: left(limits.answerMs),
        ...(limits.wholeMs === undefined ? {} : { wholeMs: left(limits.wholeMs) }),
      },
    }
  }
}
