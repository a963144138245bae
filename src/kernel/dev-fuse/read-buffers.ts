const SMALLEST_BYTES = 4096
/** Spare ones of each size that are kept. */
const SPARE = 4

/** Buffers for the answers to READ, in sizes of powers of two; they are used again. */
export class ReadBuffers {
  readonly #spare = new Map<number, Buffer[]>()

  /** At least this long. */
  take(bytes: number): Buffer {
    let size = SMALLEST_BYTES
    while (size < bytes) size *= 2
    return this.#spare.get(size)?.pop() ?? Buffer.allocUnsafeSlow(size)
  }

  /** Nothing may use it any more. */
  give(buffer: Buffer): void {
    const spare = this.#spare.get(buffer.length)
    if (spare === undefined) this.#spare.set(buffer.length, [buffer])
    else if (spare.length < SPARE) spare.push(buffer)
  }
}
