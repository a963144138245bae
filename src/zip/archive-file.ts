import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'

const BUFFER_BYTES = 1024 * 1024
/** From this size on bytes are written as they are: gathering them would cost more than it saves. */
const LARGE_BYTES = 64 * 1024

/** Where bytes go, in order; as a file handle it may take a part of them. */
export interface ByteSink {
  write(
    bytes: Uint8Array,
    offset: number,
    length: number,
  ): Promise<{ readonly bytesWritten: number }>
}

/** A file that is written from its start to its end, hashed as it goes. The handle is the caller's. */
export class ArchiveFile {
  /** Bytes so far. */
  length = 0
  readonly #handle: ByteSink
  readonly #hash: Hash = createHash('sha256')
  readonly #buffer = Buffer.allocUnsafe(BUFFER_BYTES)
  #buffered = 0

  constructor(handle: ByteSink) {
    this.#handle = handle
  }

  /** Takes the bytes; the caller may use their memory again when it resolves. */
  async write(bytes: Uint8Array): Promise<void> {
    this.length += bytes.length
    const isLarge = bytes.length >= LARGE_BYTES
    if (isLarge || this.#buffered + bytes.length > BUFFER_BYTES) await this.#flush()
    if (isLarge) {
      await this.#writeOut(bytes)
      return
    }
    this.#buffer.set(bytes, this.#buffered)
    this.#buffered += bytes.length
  }

  /** Writes what is left and resolves with the SHA-256 of everything, 64 hex digits. */
  async finish(): Promise<string> {
    await this.#flush()
    return this.#hash.digest('hex')
  }

  async #flush(): Promise<void> {
    if (this.#buffered === 0) return
    await this.#writeOut(this.#buffer.subarray(0, this.#buffered))
    this.#buffered = 0
  }

  /** The sum is made while the bytes are on their way to the disk. */
  async #writeOut(bytes: Uint8Array): Promise<void> {
    const writing = this.#writeFully(bytes)
    this.#hash.update(bytes)
    await writing
  }

  async #writeFully(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await this.#handle.write(bytes, done, bytes.length - done)
      done += bytesWritten
    }
  }
}
