import { constants } from 'node:os'
import Fuse from 'fuse-native'
import type { BusyPoll } from './busy-poll.ts'
import { fuseBinding } from './fuse-binding.ts'
import { hotHandlers, type Handler } from './hot-handlers.ts'

type OperationSignal = (result: number, ...values: readonly unknown[]) => void

/** Opcode of utimens in fuse-native 2.2.6 (fuse-native.c). */
const UTIMENS = 12
/** Offsets of `atime` and `mtime` in its `fuse_thread_locals_t` where pointers have 64 bits. */
const ATIME_OFFSET = 104
const MTIME_OFFSET = 112

/**
 * fuse-native with three of its mistakes mended: utimens hands atime twice, and getxattr and
 * listxattr answer more bytes than the caller has room for. The hot operations are answered without its
 * detours, and each call of the kernel is told to `busyPoll`.
 */
export class PatchedFuse extends Fuse {
  constructor(
    mountpoint: string,
    operations: Partial<Fuse.PathHandlers>,
    options: Fuse.Options,
    busyPoll: BusyPoll,
  ) {
    super(mountpoint, operations, options)
    const utimens = this._handlers[UTIMENS]
    if (utimens !== undefined) this._handlers[UTIMENS] = withTrueMtime(utimens)
    for (const [opcode, handler] of hotHandlers(operations, fuseBinding())) {
      this._handlers[opcode] = handler
    }
    for (const [opcode, handler] of this._handlers.entries()) {
      if (handler !== undefined) this._handlers[opcode] = thenTouch(handler, busyPoll)
    }
  }

  /**
   * Lets the event loop end once the kernel has let go of the mount. fuse-native does so only after it
   * has called `fusermount` itself, which would fail by now.
   */
  async letGo(): Promise<void> {
    const { unmount } = Fuse
    Fuse.unmount = (_mountpoint, callback): void => {
      callback(null)
    }
    try {
      await new Promise<void>((resolve) => {
        this.close(() => {
          resolve()
        })
      })
    } finally {
      Fuse.unmount = unmount
    }
  }

  /** Called by fuse-native, which would make an array of its own for each name. */
  _op_readdir(signal: OperationSignal, path: string): void {
    this.ops.readdir?.(path, (result, ...listed) => {
      signal(result, ...listed)
    })
  }

  /** Called by fuse-native. */
  _op_getxattr(
    signal: OperationSignal,
    path: string,
    name: string,
    room: Buffer,
    position: number,
  ): void {
    const reply = (result: number, value?: Buffer): void => {
      signal(result === 0 ? fill(room, value ?? Buffer.alloc(0)) : result, room.buffer)
    }
    if (this.ops.getxattr === undefined) reply(-constants.errno.EOPNOTSUPP)
    else this.ops.getxattr(path, name, position, reply)
  }

  /** Called by fuse-native. */
  _op_listxattr(signal: OperationSignal, path: string, room: Buffer): void {
    const reply = (result: number, names: readonly string[] = []): void => {
      const list = Buffer.from(names.map((name) => `${name}\0`).join(''))
      signal(result === 0 ? fill(room, list) : result, room.buffer)
    }
    if (this.ops.listxattr === undefined) reply(-constants.errno.EOPNOTSUPP)
    else this.ops.listxattr(path, reply)
  }
}

/** Length of the value when it fits or was only asked for, else ERANGE (xattr(7)). */
function fill(room: Buffer, value: Buffer): number {
  if (room.length === 0) return value.length
  if (value.length > room.length) return -constants.errno.ERANGE
  value.copy(room)
  return value.length
}

function thenTouch(handler: Handler, busyPoll: BusyPoll): Handler {
  return (...call) => {
    handler(...call)
    busyPoll.touch()
  }
}

/** The true mtime stands in the native struct; it is taken only where atime is found beside it. */
function withTrueMtime(handler: Handler): Handler {
  return (locals, opcode, path, atimeLow, atimeHigh, ...rest) => {
    const atime = locals.length >= MTIME_OFFSET + 8 ? locals.readBigUInt64LE(ATIME_OFFSET) : -1n
    const given = (BigInt(Number(atimeHigh)) << 32n) + BigInt(Number(atimeLow))
    if (atime !== given) {
      handler(locals, opcode, path, atimeLow, atimeHigh, ...rest)
      return
    }
    const low = locals.readUInt32LE(MTIME_OFFSET)
    const high = locals.readUInt32LE(MTIME_OFFSET + 4)
    handler(locals, opcode, path, atimeLow, atimeHigh, low, high)
  }
}
