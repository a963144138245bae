import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import type { BagFile } from './bag-file.ts'

const BLOCK_BYTES = 1024 * 1024

/**
 * The SHA-256 of one generation of content. It is taken from the bytes as they come, as far as they
 * come in order from 0, and from the file for the rest.
 */
export class ContentHash {
  #hash: Hash = createHash('sha256')
  #end = 0

  take(chunks: readonly Uint8Array[], position: number): void {
    if (position !== this.#end) return
    for (const chunk of chunks) {
      this.#hash.update(chunk)
      this.#end += chunk.length
    }
  }

  /** Resolves with 64 hex digits, when all of `file` was read; afterwards the hash starts afresh. */
  async finish(file: BagFile): Promise<string> {
    const hash = this.#hash
    let position = this.#end
    this.#hash = createHash('sha256')
    this.#end = 0
    const total = file.total ?? 0
    const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, Math.max(0, total - position)))
    while (position < total) {
      const length = Math.min(block.length, total - position)
      await file.read(block, position, length)
      hash.update(block.subarray(0, length))
      position += length
    }
    return hash.digest('hex')
  }
}
