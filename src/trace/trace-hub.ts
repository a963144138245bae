import type { TracedOperation, TraceEvent, TraceFilter } from '../control/protocol.ts'
import type { Clock } from '../domain/clock.ts'
import type { EndedOperation, OperationTracer } from '../kernel/operation-watch.ts'
import type { AskingProcess } from '../kernel/asking-process.ts'
import { TraceReader } from './trace-reader.ts'

interface TraceHubDeps {
  readonly clock: Clock
  readonly processOf: (thread: number) => AskingProcess
}

/** Hands the operations of a drive to the readers of its traces. */
export class TraceHub implements OperationTracer {
  readonly #deps: TraceHubDeps
  /** `follow` adds and removes. */
  readonly #readers = new Set<TraceReader>()

  constructor(deps: TraceHubDeps) {
    this.#deps = deps
  }

  /** Itself while a trace is followed. */
  get tracer(): OperationTracer | undefined {
    return this.#readers.size === 0 ? undefined : this
  }

  began(thread: number | undefined): (ended: EndedOperation) => void {
    // A program that does not wait any more may have ended, or be another one by the same number.
    const process = thread === undefined ? undefined : this.#deps.processOf(thread)
    return (ended) => {
      const atMs = this.#deps.clock.now()
      const traced: TracedOperation = { type: 'operation', atMs, ...ended, ...process }
      for (const reader of this.#readers) reader.take(traced, thread)
    }
  }

  /** Operations that begin from now on, as they end, until the signal is aborted. */
  async *follow(filter: TraceFilter, signal: AbortSignal): AsyncGenerator<readonly TraceEvent[]> {
    const reader = new TraceReader(filter, this.#deps.clock)
    this.#readers.add(reader)
    try {
      yield [{ type: 'begun' }]
      yield* reader.batches(signal)
    } finally {
      this.#readers.delete(reader)
    }
  }
}
