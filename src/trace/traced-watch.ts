import type { OperationTracer, OperationWatch } from '../kernel/operation-watch.ts'
import type { TraceHub } from './trace-hub.ts'

/** A watch, and beside it the traces that are followed just now. */
export function withTraces(watch: OperationWatch, traces: TraceHub): OperationWatch {
  return {
    ended: (...operation) => {
      watch.ended(...operation)
    },
    get tracer(): OperationTracer | undefined {
      return traces.tracer
    },
  }
}
