import { errnoName, toErrno } from '../errno.ts'
import type { OperationTracer, OperationWatch } from '../operation-watch.ts'
import type { KernelAnswer } from './answer.ts'
import type { KernelOperation, Operations } from './context.ts'
import type { OpcodeName } from './opcodes.ts'
import type { KernelRequest } from './request.ts'
import type { RequestTrace } from './trace-request.ts'

/** Begins to trace a request, while a trace runs. */
export type BeginTrace = (
  tracer: OperationTracer,
  opcode: OpcodeName,
  request: KernelRequest,
) => RequestTrace

/** Operations of which each tells when it ends. What is answered at once stays so. */
export function watchedOperations(
  operations: Operations,
  watch: OperationWatch,
  begin: BeginTrace,
): Operations {
  const all = Object.entries(operations) as [OpcodeName, KernelOperation][]
  const watched = all.map(([opcode, operation]) => [
    opcode,
    watchedOperation(opcode, operation, watch, begin),
  ])
  return Object.fromEntries(watched) as Operations
}

function watchedOperation(
  opcode: OpcodeName,
  operation: KernelOperation,
  watch: OperationWatch,
  begin: BeginTrace,
): KernelOperation {
  const name = opcode.toLowerCase()
  return (request) => {
    const startedMs = performance.now()
    const trace = watch.tracer && begin(watch.tracer, opcode, request)
    const tell = (errno: number | undefined, answered?: KernelAnswer): void => {
      const error = errno === undefined ? undefined : errnoName(errno)
      const tookMs = performance.now() - startedMs
      watch.ended(name, tookMs, error)
      trace?.({ operation: name, tookMs, error }, answered)
    }
    let answer: KernelAnswer | Promise<KernelAnswer>
    try {
      answer = operation(request)
    } catch (error) {
      tell(toErrno(error))
      throw error
    }
    if (answer instanceof Promise) {
      answer.then(
        (later) => {
          tell(errnoOf(later), later)
        },
        (error: unknown) => {
          tell(toErrno(error))
        },
      )
    } else tell(errnoOf(answer), answer)
    return answer
  }
}

function errnoOf(answer: KernelAnswer): number | undefined {
  if ('errno' in answer) return answer.errno
  return answer.standsFor === undefined ? undefined : toErrno(answer.standsFor)
}
