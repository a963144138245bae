import type Fuse from 'fuse-native'
import { errnoName } from './errno.ts'
import type { OperationSubject, OperationTracer, OperationWatch } from './operation-watch.ts'

type HandlerName = keyof Fuse.PathHandlers
type AnyHandler = (...call: readonly unknown[]) => void
type AnyReply = (result: number, ...values: readonly unknown[]) => void

/** Handlers for fuse-native of which each tells when it has replied; the reply comes last in each call. */
export function watchedHandlers(
  handlers: Partial<Fuse.PathHandlers>,
  watch: OperationWatch,
): Partial<Fuse.PathHandlers> {
  const all = Object.entries(handlers) as [HandlerName, AnyHandler][]
  const watched = all.map(([operation, handler]): [string, AnyHandler] => [
    operation,
    (...call) => {
      const startedMs = performance.now()
      const trace = watch.tracer && traceCall(watch.tracer, operation, call)
      const reply = call.at(-1) as AnyReply
      const tell: AnyReply = (result, ...values) => {
        const error = result < 0 ? errnoName(-result) : undefined
        const tookMs = performance.now() - startedMs
        watch.ended(operation, tookMs, error)
        trace?.(tookMs, error, result)
        reply(result, ...values)
      }
      handler(...call.slice(0, -1), tell)
    },
  ])
  return Object.fromEntries(watched)
}

/** fuse-native does not tell which program asks. */
function traceCall(tracer: OperationTracer, operation: HandlerName, call: readonly unknown[]) {
  const ended = tracer.began(undefined)
  const [path, ...others] = call
  const subject = { path: String(path), ...SUBJECTS[operation]?.(others) }
  return (tookMs: number, error: string | undefined, result: number): void => {
    const isTransfer = operation === 'read' || operation === 'write'
    const bytes = isTransfer && error === undefined ? result : undefined
    ended({ operation, tookMs, error, bytes, ...subject })
  }
}

/** What stands in a call behind its path, as fuse-native.d.ts has it. */
const SUBJECTS: Partial<
  Record<HandlerName, (others: readonly unknown[]) => Partial<OperationSubject>>
> = {
  read: ([, , size, offset]) => ({ size: Number(size), offset: Number(offset) }),
  write: ([, , size, offset]) => ({ size: Number(size), offset: Number(offset) }),
  truncate: ([size]) => ({ size: Number(size) }),
  ftruncate: ([, size]) => ({ size: Number(size) }),
  rename: ([to]) => ({ to: String(to) }),
  link: ([to]) => ({ to: String(to) }),
  // The first is what the link holds.
  symlink: ([path]) => ({ path: String(path) }),
}
