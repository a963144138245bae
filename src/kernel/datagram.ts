import { getSystemErrorName } from 'node:util'
import { DriveError } from '../domain/errors.ts'
import type { CFunction } from './dev-fuse/libc.ts'

/** Numbers of Linux. */
const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
const MSG_DONTWAIT = 0x40
const MSG_NOSIGNAL = 0x4000
/** Of `sun_path` (unix(7)). */
const LONGEST_PATH_BYTES = 107
const FAMILY_BYTES = 2

export type SendDatagram = (text: string) => void

/**
 * Sends datagrams to a unix socket, which Node cannot; a path that begins with `@` is an abstract one. Rejects `usage`
 * where the package that calls C libraries has nothing for this machine. What is sent throws `local-io` when it fails.
 */
export async function openDatagrams(path: string): Promise<SendDatagram> {
  const address = addressOf(path)
  const { default: koffi } = await import('koffi').catch((cause: unknown) => {
    throw new DriveError('usage', 'Datagrams cannot be sent on this machine.', {
      cause,
      hint: 'The npm package koffi has no binary for it.',
    })
  })
  const library = koffi.load(null)
  const socket = library.func('int socket(int, int, int)') as CFunction
  const close = library.func('int close(int)') as CFunction
  const sendto = library.func(
    'int64_t sendto(int, const uint8_t *, size_t, int, const uint8_t *, uint32_t)',
  ) as CFunction
  const done = (name: string, result: number): number => {
    if (result >= 0) return result
    throw new DriveError('local-io', `${name}: ${getSystemErrorName(-koffi.errno())}`)
  }
  return (text) => {
    const fd = done('socket', socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
    try {
      const bytes = Buffer.from(text)
      const flags = MSG_DONTWAIT | MSG_NOSIGNAL
      done('sendto', sendto(fd, bytes, bytes.length, flags, address, address.length))
    } finally {
      close(fd)
    }
  }
}

function addressOf(path: string): Buffer {
  const name = Buffer.from(path)
  if (name.length > LONGEST_PATH_BYTES) {
    throw new DriveError('usage', `The path of a socket is too long: ${path}`)
  }
  const address = Buffer.alloc(FAMILY_BYTES + name.length + (path.startsWith('@') ? 0 : 1))
  address.writeUInt16LE(AF_UNIX)
  name.copy(address, FAMILY_BYTES)
  if (path.startsWith('@')) address[FAMILY_BYTES] = 0
  return address
}
