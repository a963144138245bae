import type { TracedOperation, TraceFilter } from '../control/protocol.ts'

/** Whether a reader has asked for this operation. `thread` is the one that began it, where that is known. */
export function isAskedFor(
  { operations, path, pid, slowMs, without }: TraceFilter,
  told: TracedOperation,
  thread: number | undefined,
): boolean {
  if (operations.length > 0 && !operations.includes(told.operation)) return false
  if (path !== undefined && !beginsWith(told.path, path) && !beginsWith(told.to, path)) return false
  if (pid !== undefined && told.pid !== pid && thread !== pid) return false
  if (slowMs !== undefined && told.tookMs <= slowMs) return false
  return without === undefined || told.pid !== without
}

function beginsWith(path: string | undefined, prefix: string): boolean {
  return path?.startsWith(prefix) === true
}
