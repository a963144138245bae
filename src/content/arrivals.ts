import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

/** Bytes that may wait for the disk, per body: enough for large writes while the network delivers small chunks. */
const BUFFER_BYTES = 2 * 1024 * 1024

/**
 * The chunks of a body: each time all that came since the last, those of one turn together. What came before a cut is
 * given before it throws. Ends with an error when the signal is aborted; to leave it destroys the body.
 */
export async function* arrivals(
  body: Readable,
  signal: AbortSignal,
): AsyncGenerator<readonly Uint8Array[], void, undefined> {
  const queue = new ChunkQueue(body, signal)
  try {
    for (;;) {
      const chunks = await queue.take()
      if (chunks.length === 0) return
      yield chunks
    }
  } finally {
    queue.close()
  }
}

class ChunkQueue {
  readonly #body: Readable
  readonly #signal: AbortSignal
  #chunks: Uint8Array[] = []
  #bytes = 0
  #end: { readonly error: Error | undefined } | undefined
  #wake: () => void = () => undefined

  constructor(body: Readable, signal: AbortSignal) {
    this.#body = body
    this.#signal = signal
    signal.addEventListener('abort', this.#onAbort, { once: true })
    // It may fail once more after it was closed, when it has no listener any longer.
    body.on('error', ignore)
    finished(body, { signal }).then(
      () => {
        this.#over(undefined)
      },
      (error: unknown) => {
        this.#over(error instanceof Error ? error : new Error(String(error)))
      },
    )
    body.on('data', this.#onData)
  }

  /** What is here, at least one chunk; none at the end of the body. */
  async take(): Promise<readonly Uint8Array[]> {
    while (this.#chunks.length === 0) {
      if (this.#end !== undefined) {
        if (this.#end.error !== undefined) throw this.#end.error
        return []
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const chunks = this.#chunks
    this.#chunks = []
    this.#bytes = 0
    if (this.#body.isPaused()) this.#body.resume()
    return chunks
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#body.off('data', this.#onData)
    this.#body.destroy()
  }

  readonly #onData = (chunk: Uint8Array): void => {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes >= BUFFER_BYTES) this.#body.pause()
    // One write for all that this turn brings costs less than one for each chunk.
    if (this.#chunks.length === 1) setImmediate(this.#tell)
  }

  readonly #tell = (): void => {
    this.#wake()
  }

  readonly #onAbort = (): void => {
    this.#body.destroy()
  }

  #over(error: Error | undefined): void {
    this.#end = { error }
    this.#wake()
  }
}

const ignore = (): void => undefined
