import { errnoName, toErrno } from '../errno.ts'
import type { OperationWatch } from '../operation-watch.ts'
import type { KernelAnswer } from './answer.ts'
import type { KernelOperation, Operations } from './context.ts'

/** Operations of which each tells when it ends. What is answered at once stays so. */
export function watchedOperations(operations: Operations, watch: OperationWatch): Operations {
  const watched = Object.entries(operations).map(([opcode, operation]) => [
    opcode,
    watchedOperation(opcode.toLowerCase(), operation, watch),
  ])
  return Object.fromEntries(watched) as Operations
}

function watchedOperation(
  name: string,
  operation: KernelOperation,
  watch: OperationWatch,
): KernelOperation {
  const tell = (startedMs: number, errno: number | undefined): void => {
    const error = errno === undefined ? undefined : errnoName(errno)
    watch.ended(name, performance.now() - startedMs, error)
  }
  return (request) => {
    const startedMs = performance.now()
    let answer: KernelAnswer | Promise<KernelAnswer>
    try {
      answer = operation(request)
    } catch (error) {
      tell(startedMs, toErrno(error))
      throw error
    }
    if (answer instanceof Promise) {
      answer.then(
        (later) => {
          tell(startedMs, errnoOf(later))
        },
        (error: unknown) => {
          tell(startedMs, toErrno(error))
        },
      )
    } else tell(startedMs, errnoOf(answer))
    return answer
  }
}

function errnoOf(answer: KernelAnswer): number | undefined {
  return 'errno' in answer ? answer.errno : undefined
}
