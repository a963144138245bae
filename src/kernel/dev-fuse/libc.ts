import { getSystemErrorName } from 'node:util'
import { DriveError } from '../../domain/errors.ts'
import type { ShareRange } from '../../drive/tree/share-range.ts'
import { BACKING_MAP, CLONE_RANGE } from './structures.ts'

/** Numbers of Linux, the same on every machine that Node runs on. */
const AF_UNIX = 1
const SOCK_STREAM = 1
const O_CLOEXEC = 0o2000000
const MSG_CMSG_CLOEXEC = 0x4000_0000
const F_GETFL = 3
const F_SETFL = 4
const O_NONBLOCK = 0o4000
const LOCK_EX = 2
const LOCK_NB = 4
/** _IOW(229, 1, struct fuse_backing_map) and _IOW(229, 2, uint32_t), as all but MIPS, PowerPC and SPARC have it. */
const FUSE_DEV_IOC_BACKING_OPEN = 0x4010_e501
const FUSE_DEV_IOC_BACKING_CLOSE = 0x4004_e502
/** _IOW(0x94, 13, struct file_clone_range), on the same machines. */
const FICLONERANGE = 0x4020_940d
/** Where a control message that carries a descriptor has it, behind its header (cmsg(3)), and how long that is. */
const DESCRIPTOR_AT = 16
const CONTROL_BYTES = DESCRIPTOR_AT + 8

/**
 * Where data (SEEK_DATA, 3) or a hole (SEEK_HOLE, 4) of an open file begins, from an offset on, in bytes; `none` where there is
 * none up to the end, and undefined where the file system cannot tell. See lseek(2).
 */
export type SeekExtent = (fd: number, offset: number, whence: number) => number | 'none' | undefined

/** What the bridge needs of the system and Node does not offer. */
export interface Libc {
  readonly seek: SeekExtent
  readonly share: ShareRange
  /** Two ends of a stream; programs that are started do not inherit them. */
  socketPair(): readonly [number, number]
  /** Makes a descriptor mean what another one does. */
  duplicate(from: number, to: number): void
  dontBlock(fd: number): void
  /** Locks an open file or directory until it is closed (flock(2)); false where another process has. */
  lock(fd: number): boolean
  /** The descriptor that a message on a socket carries; undefined when it was closed without one. */
  receiveDescriptor(socket: number): number | undefined
  /** Has the kernel know an open file for a mount, by an id; or the name of the errno by which it refuses. */
  openBacking(device: number, fd: number): { readonly id: number } | { readonly refusal: string }
  closeBacking(device: number, id: number): void
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
  const ioctl = library.func('int ioctl(int, unsigned long, ...)') as CFunction
  const inout = koffi.inout(koffi.pointer(msghdr))
  const recvmsg = library.func('recvmsg', 'int64_t', ['int', inout, 'int']) as CFunction
  const errorName = (): string => getSystemErrorName(-koffi.errno())
  const done = (name: string, result: number): number => {
    if (result >= 0) return result
    throw new DriveError('local-io', `${name}: ${errorName()}`)
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
    ...descriptorCalls((text) => library.func(text) as CFunction, errorName),
    ...fileCalls({ ioctl, done, errorName }),
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

function descriptorCalls(
  find: (text: string) => CFunction,
  errorName: () => string,
): Pick<Libc, 'seek' | 'lock'> {
  return {
    seek: seekBy(find('int64_t lseek(int, int64_t, int)'), errorName),
    lock: lockBy(find('int flock(int, int)'), errorName),
  }
}

/** A file system that has no such locks keeps no process out. */
function lockBy(flock: CFunction, errorName: () => string): (fd: number) => boolean {
  return (fd) => flock(fd, LOCK_EX | LOCK_NB) === 0 || errorName() !== 'EAGAIN'
}

function seekBy(lseek: CFunction, errorName: () => string): SeekExtent {
  return (fd, offset, whence) => {
    const at = lseek(fd, offset, whence)
    if (at >= 0) return at
    return errorName() === 'ENXIO' ? 'none' : undefined
  }
}

function shareBy(ioctl: CFunction): ShareRange {
  return ({ fd, offset, length }, to) => {
    const range = CLONE_RANGE.encode({ fd, offset, length, toOffset: to.offset })
    return ioctl(to.fd, FICLONERANGE, 'uint8_t *', range) === 0
  }
}

function fileCalls(calls: Parameters<typeof backingCalls>[0]) {
  return { ...backingCalls(calls), share: shareBy(calls.ioctl) }
}

function backingCalls({
  ioctl,
  done,
  errorName,
}: {
  readonly ioctl: CFunction
  readonly done: (name: string, result: number) => number
  readonly errorName: () => string
}): Pick<Libc, 'openBacking' | 'closeBacking'> {
  return {
    openBacking: (device, fd) => {
      const map = BACKING_MAP.encode({ fd, flags: 0 })
      const id = ioctl(device, FUSE_DEV_IOC_BACKING_OPEN, 'uint8_t *', map)
      return id > 0 ? { id } : { refusal: errorName() }
    },
    closeBacking: (device, id) => {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32LE(id)
      done('ioctl', ioctl(device, FUSE_DEV_IOC_BACKING_CLOSE, 'uint8_t *', bytes))
    },
  }
}

export type CFunction = (...values: readonly unknown[]) => number
