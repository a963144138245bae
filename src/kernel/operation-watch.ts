import type Fuse from 'fuse-native'
import { errnoName } from './errno.ts'

/** Is told of each operation of the drive when it ends. */
export interface OperationWatch {
  /** `error` is the name of the errno that the program sees, such as `ENOENT`; undefined when it succeeded. */
  ended(operation: string, tookMs: number, error: string | undefined): void
}

type AnyHandler = (...call: readonly unknown[]) => void
type AnyReply = (result: number, ...values: readonly unknown[]) => void

/** Handlers for fuse-native of which each tells when it has replied; the reply comes last in each call. */
export function watchedHandlers(
  handlers: Partial<Fuse.PathHandlers>,
  watch: OperationWatch,
): Partial<Fuse.PathHandlers> {
  const all = Object.entries(handlers) as [string, AnyHandler][]
  const watched = all.map(([operation, handler]): [string, AnyHandler] => [
    operation,
    (...call) => {
      const startedMs = performance.now()
      const reply = call.at(-1) as AnyReply
      const tell: AnyReply = (result, ...values) => {
        const error = result < 0 ? errnoName(-result) : undefined
        watch.ended(operation, performance.now() - startedMs, error)
        reply(result, ...values)
      }
      handler(...call.slice(0, -1), tell)
    },
  ])
  return Object.fromEntries(watched)
}
