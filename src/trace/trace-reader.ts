import type { TracedOperation, TraceEvent, TraceFilter } from '../control/protocol.ts'
import type { Clock } from '../domain/clock.ts'
import { deferred } from '../domain/deferred.ts'
import { isAskedFor } from './trace-filter.ts'

/** Operations that wait for a reader; those that come when it has so many are only counted. */
export const MOST_WAITING = 4_096
/** What comes within this time is handed over together: each hand-over takes as long as a read of a cached file. */
const GATHER_MS = 20

/** A command that follows a trace. Nothing here waits for it but itself. */
export class TraceReader {
  readonly #filter: TraceFilter
  readonly #clock: Clock
  #waiting: TraceEvent[] = []
  #lost = 0
  #woken = deferred()

  constructor(filter: TraceFilter, clock: Clock) {
    this.#filter = filter
    this.#clock = clock
  }

  take(traced: TracedOperation, thread: number | undefined): void {
    if (!isAskedFor(this.#filter, traced, thread)) return
    if (this.#waiting.length < MOST_WAITING) this.#waiting.push(traced)
    else this.#lost += 1
    this.#woken.resolve()
  }

  /** What there is to tell, in the order in which it happened, until the signal is aborted. */
  async *batches(signal: AbortSignal): AsyncGenerator<readonly TraceEvent[]> {
    const wake = (): void => {
      this.#woken.resolve()
    }
    signal.addEventListener('abort', wake)
    try {
      while (!signal.aborted) {
        await this.#woken.promise
        await this.#gather(signal)
        yield* this.#takeAll()
      }
      yield* this.#takeAll()
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  async #gather(signal: AbortSignal): Promise<void> {
    try {
      await this.#clock.sleep(GATHER_MS, signal)
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  /** One batch, or none. What was lost came after all that waits. */
  *#takeAll(): Generator<readonly TraceEvent[]> {
    const lost: TraceEvent[] = this.#lost === 0 ? [] : [{ type: 'lost', count: this.#lost }]
    const batch = [...this.#waiting, ...lost]
    this.#waiting = []
    this.#lost = 0
    this.#woken = deferred()
    if (batch.length > 0) yield batch
  }
}
