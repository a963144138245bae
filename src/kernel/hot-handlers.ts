import type Fuse from 'fuse-native'
import type { FuseBinding } from './fuse-binding.ts'
import { toStatArray } from './stats.ts'

/** Called by the native half of fuse-native, with the values of its fuse_native_dispatch_*. */
export type Handler = (locals: Buffer, opcode: number, ...values: unknown[]) => void

const NO_STAT = toStatArray(undefined)

/**
 * Handlers, by opcode, of the operations that programs call thousands of times a second. fuse-native's own
 * pass each answer through process.nextTick and half a dozen arrays: a quarter of the time of `ls -l`
 * (docs/BENCHMARKS.md, "Where the time goes").
 */
export function hotHandlers(
  { getattr, read, write }: Partial<Fuse.PathHandlers>,
  binding: FuseBinding,
): ReadonlyMap<number, Handler> {
  const handlers = new Map<number, Handler>()
  if (getattr !== undefined) {
    handlers.set(binding.op_getattr, ((locals: Buffer, _opcode: number, path: string): void => {
      getattr(path, (result, stat) => {
        const array = stat === undefined ? NO_STAT : toStatArray(stat)
        binding.fuse_native_signal_getattr(locals, result, array)
      })
    }) as Handler)
  }
  if (read !== undefined) {
    handlers.set(binding.op_read, transfer(read, binding.fuse_native_signal_read))
  }
  if (write !== undefined) {
    handlers.set(binding.op_write, transfer(write, binding.fuse_native_signal_write))
  }
  return handlers
}

function transfer(
  operation: Fuse.PathHandlers['read'],
  signal: FuseBinding['fuse_native_signal_read'],
): Handler {
  const handler = (
    locals: Buffer,
    _opcode: number,
    path: string,
    fd: number,
    buffer: Buffer,
    length: number,
    positionLow: number,
    positionHigh: number,
  ): void => {
    const position = positionLow + positionHigh * 2 ** 32
    operation(path, fd, buffer, length, position, (result) => {
      signal(locals, result, 0, buffer.buffer)
    })
  }
  return handler as Handler
}
