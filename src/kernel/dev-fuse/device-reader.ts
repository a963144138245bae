import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { deferred } from '../../domain/deferred.ts'
import { systemErrorCode } from '../../domain/errors.ts'
import type { Libc } from './libc.ts'
import { LONGEST_REQUEST_BYTES } from './negotiation.ts'

/**
 * Reads the device within the event loop: no other thread hands requests over. Node listens to sockets and not to
 * devices, so it gets a socket, and the descriptor means the device before it is listened to.
 */
export class DeviceReader {
  readonly #socket: Socket
  readonly #ended = deferred<string>()

  /** `device` stays the caller's, and open. Each message is the kernel's again when `onMessage` has returned. */
  constructor(libc: Libc, device: number, onMessage: (message: Buffer) => void) {
    const [fd, other] = libc.socketPair()
    const buffer = Buffer.allocUnsafeSlow(LONGEST_REQUEST_BYTES)
    const callback = (length: number): boolean => {
      onMessage(buffer.subarray(0, length))
      return true
    }
    // Node's types lack `onread` here; its documentation has it (net.Socket).
    const options = { fd, readable: true, writable: false, onread: { buffer, callback } }
    this.#socket = new Socket(options)
    libc.duplicate(device, fd)
    closeSync(other)
    this.#socket.on('error', (error) => {
      this.#ended.resolve(systemErrorCode(error) ?? error.message)
    })
    this.#socket.on('close', () => {
      this.#ended.resolve('closed')
    })
  }

  /** Resolves when no more messages will come, with the code of what ended them: ENODEV when it is unmounted. */
  get ended(): Promise<string> {
    return this.#ended.promise
  }

  /** Goes on for programs that still ask, and keeps this process alive no longer. */
  unref(): void {
    this.#socket.unref()
  }
}
