import type { TracedOperation, TraceFilter } from '../control/protocol.ts'

/** Whether a reader has asked for this operation. `thread` is the one that began it, where that is known. */
export function isAskedFor(
  { operations, path, pid, slowMs, without }: TraceFilter,
  traced: TracedOperation,
  thread: number | undefined,
): boolean {
  if (operations.length > 0 && !operations.includes(traced.operation)) return false
  if (path !== undefined && !beginsWith(traced.path, path) && !beginsWith(traced.to, path))
    return false
  if (pid !== undefined && traced.pid !== pid && thread !== pid) return false
  if (slowMs !== undefined && traced.tookMs <= slowMs) return false
  return without === undefined || traced.pid !== without
}

function beginsWith(path: string | undefined, prefix: string): boolean {
  return path?.startsWith(prefix) === true
}
