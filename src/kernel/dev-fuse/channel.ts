import { closeSync, writev, writevSync } from 'node:fs'
import { systemErrorCode } from '../../domain/errors.ts'
import type { Logger } from '../../domain/logger.ts'

/** The way to the kernel. */
export interface Channel {
  /** Writes an answer, header first; false when the kernel does not wait for it any more. */
  answer(parts: readonly Uint8Array[]): boolean
  /** Tells the kernel something that it did not ask for; resolves when it has heard. */
  notify(parts: readonly Uint8Array[]): Promise<void>
}

/** The request was interrupted, or the mount is gone. */
const NOT_WAITED_FOR: ReadonlySet<string> = new Set(['ENOENT', 'ENODEV', 'ECONNABORTED', 'EPERM'])

/** The way to the kernel by a descriptor of /dev/fuse, which it closes in the end. */
export class DeviceChannel implements Channel {
  readonly #fd: number
  readonly #log: Logger
  readonly #running = new Set<Promise<void>>()
  #isClosed = false

  constructor(fd: number, log: Logger) {
    this.#fd = fd
    this.#log = log
  }

  answer(parts: readonly Uint8Array[]): boolean {
    if (this.#isClosed) return false
    try {
      writevSync(this.#fd, parts)
      return true
    } catch (error) {
      const code = systemErrorCode(error) ?? ''
      if (!NOT_WAITED_FOR.has(code)) {
        this.#log.error(
          { code, bytes: parts.map(({ length }) => length) },
          'A bug: the kernel refuses an answer.',
        )
      }
      return false
    }
  }

  /**
   * By another thread: the kernel may take a lock for it that a request holds which this thread is still to answer.
   */
  async notify(parts: readonly Uint8Array[]): Promise<void> {
    if (this.#isClosed) return
    const written = new Promise<void>((resolve) => {
      writev(this.#fd, parts, (error) => {
        const code = systemErrorCode(error) ?? ''
        // ENOENT: the kernel does not know this node, and so has nothing to forget.
        if (error !== null && !NOT_WAITED_FOR.has(code)) {
          this.#log.warn({ code }, 'The kernel takes no notice.')
        }
        resolve()
      })
    })
    this.#running.add(written)
    await written
    this.#running.delete(written)
  }

  /** A number of a descriptor is given again: it is closed when nothing is written to it any more. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await Promise.all(this.#running)
    closeSync(this.#fd)
  }
}
