import { createRequire } from 'node:module'
import { dirname } from 'node:path'

/** Ends a call of the kernel: the thread of libfuse that waits for it goes on at once. */
type Signal<Values extends readonly unknown[]> = (
  locals: Buffer,
  /** 0 or a count, or a negative errno. */
  result: number,
  ...values: Values
) => void

/** What the bridge uses of the native half of fuse-native 2.2.6 (fuse-native.c). */
export interface FuseBinding {
  readonly op_getattr: number
  readonly op_read: number
  readonly op_write: number
  /** The array is a stat as fuse-native's index.js lays it out; it is read before the call returns. */
  readonly fuse_native_signal_getattr: Signal<[stat: Uint32Array]>
  /** The count is not looked at; the buffer, the one that was handed out, is detached. */
  readonly fuse_native_signal_read: Signal<[count: number, buffer: ArrayBufferLike]>
  readonly fuse_native_signal_write: Signal<[count: number, buffer: ArrayBufferLike]>
}

/** The native half that fuse-native itself has loaded, which it keeps to itself. */
export function fuseBinding(): FuseBinding {
  const path = createRequire(import.meta.url).resolve('fuse-native')
  const load = createRequire(path)('node-gyp-build') as (directory: string) => FuseBinding
  return load(dirname(path))
}
