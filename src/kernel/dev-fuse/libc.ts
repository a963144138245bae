import { getSystemErrorName } from 'node:util'
import { DriveError } from '../../domain/errors.ts'

/** Numbers of Linux, the same on every machine that Node runs on. */
const AF_UNIX = 1
const SOCK_STREAM = 1
const O_CLOEXEC = 0o2000000
const MSG_CMSG_CLOEXEC = 0x4000_0000
const F_GETFL = 3
const F_SETFL = 4
const O_NONBLOCK = 0o4000
/** Where a control message that carries a descriptor has it, behind its header (cmsg(3)), and how long that is. */
const DESCRIPTOR_AT = 16
const CONTROL_BYTES = DESCRIPTOR_AT + 8

/** What the bridge needs of the system and Node does not offer. */
export interface Libc {
  /** Two ends of a stream; programs that are started do not inherit them. */
  socketPair(): readonly [number, number]
  /** Makes a descriptor mean what another one does. */
  duplicate(from: number, to: number): void
  dontBlock(fd: number): void
  /** The descriptor that a message on a socket carries; undefined when it was closed without one. */
  receiveDescriptor(socket: number): number | undefined
}

/** Rejects `usage` where the package that calls C libraries has nothing for this machine. */
export async function loadLibc(): Promise<Libc> {
  const { default: koffi } = await import('koffi').catch((cause: unknown) => {
    throw new DriveError('usage', '--bridge dev-fuse does not run on this machine.', {
      cause,
      hint: 'The npm package koffi has no binary for it. Use --bridge fuse-native.',
    })
  })
  const library = koffi.load(null)
  const iovec = koffi.struct({ base: 'uint8_t *', length: 'size_t' })
  const msghdr = koffi.struct({
    name: 'void *',
    nameLength: 'uint32_t',
    pieces: koffi.pointer(iovec),
    count: 'size_t',
    control: 'uint8_t *',
    controlLength: 'size_t',
    flags: 'int',
  })
  const socketpair = library.func('int socketpair(int, int, int, _Out_ int *)') as CFunction
  const dup3 = library.func('int dup3(int, int, int)') as CFunction
  const fcntl = library.func('int fcntl(int, int, ...)') as CFunction
  const inout = koffi.inout(koffi.pointer(msghdr))
  const recvmsg = library.func('recvmsg', 'int64_t', ['int', inout, 'int']) as CFunction
  const done = (name: string, result: number): number => {
    if (result >= 0) return result
    throw new DriveError('local-io', `${name}: ${getSystemErrorName(-koffi.errno())}`)
  }
  return {
    socketPair: () => {
      const ends: [number, number] = [0, 0]
      done('socketpair', socketpair(AF_UNIX, SOCK_STREAM | O_CLOEXEC, 0, ends))
      return ends
    },
    duplicate: (from, to) => {
      done('dup3', dup3(from, to, O_CLOEXEC))
    },
    dontBlock: (fd) => {
      const flags = done('fcntl', fcntl(fd, F_GETFL))
      done('fcntl', fcntl(fd, F_SETFL, 'int', flags | O_NONBLOCK))
    },
    receiveDescriptor: (socket) => {
      const control = Buffer.alloc(CONTROL_BYTES)
      const message = {
        name: null,
        nameLength: 0,
        pieces: [{ base: Buffer.alloc(1), length: 1 }],
        count: 1,
        control,
        controlLength: control.length,
        flags: 0,
      }
      const received = done('recvmsg', recvmsg(socket, message, MSG_CMSG_CLOEXEC))
      return received === 0 ? undefined : control.readInt32LE(DESCRIPTOR_AT)
    },
  }
}

export type CFunction = (...values: readonly unknown[]) => number
