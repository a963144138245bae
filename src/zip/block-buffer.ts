import { LRUCache } from 'lru-cache'
import { untilAborted } from '../domain/until-aborted.ts'
import { interrupted, throwIfAborted } from './abort.ts'
import type { RandomAccessSource } from './source.ts'

export interface BlockBufferSettings {
  /** Bytes that one read of the source fetches. */
  readonly blockBytes: number
  /** How many blocks are kept; the least recently used goes first. */
  readonly maxBlocks: number
}

/** A block that is being fetched, for as many readers as want it. */
interface Fetch {
  readonly block: Promise<Uint8Array>
  readonly abort: AbortController
  readers: number
}

/**
 * Turns many small reads into few reads of whole blocks, so that a zip's directory and small
 * members cost few range requests. Reads of a block and more go to the source as they are and are
 * not kept. Nor are bytes that the source has at hand.
 *
 * Readers of one block share one fetch; it is aborted when the last of them gave up. A failed fetch
 * is not kept: the next reader tries again.
 */
export function blockBuffered(
  source: RandomAccessSource,
  settings: BlockBufferSettings,
): RandomAccessSource {
  const buffer = new BlockBuffer(source, settings)
  return {
    length: source.length,
    read: (target, position, signal) => buffer.read(target, position, signal),
    readNow: (target, position) => source.readNow?.(target, position),
  }
}

class BlockBuffer {
  readonly #source: RandomAccessSource
  readonly #blockBytes: number
  readonly #blocks: LRUCache<number, Uint8Array>
  /** Each fetch removes itself when it ends. */
  readonly #fetches = new Map<number, Fetch>()

  constructor(source: RandomAccessSource, settings: BlockBufferSettings) {
    this.#source = source
    this.#blockBytes = settings.blockBytes
    this.#blocks = new LRUCache({ max: settings.maxBlocks })
  }

  async read(target: Uint8Array, position: number, signal?: AbortSignal): Promise<number> {
    if (target.length >= this.#blockBytes) return this.#source.read(target, position, signal)
    const now = this.#source.readNow?.(target, position)
    if (now !== undefined) return now
    let filled = 0
    while (filled < target.length && position + filled < this.#source.length) {
      const index = Math.floor((position + filled) / this.#blockBytes)
      const block = this.#blocks.get(index) ?? (await this.#fetch(index, signal))
      const from = position + filled - index * this.#blockBytes
      const piece = block.subarray(from, from + target.length - filled)
      if (piece.length === 0) break
      target.set(piece, filled)
      filled += piece.length
    }
    return filled
  }

  async #fetch(index: number, signal?: AbortSignal): Promise<Uint8Array> {
    throwIfAborted(signal)
    const fetch = this.#fetches.get(index) ?? this.#start(index)
    fetch.readers += 1
    try {
      return await untilAborted(fetch.block, signal, interrupted)
    } finally {
      fetch.readers -= 1
      if (fetch.readers === 0) {
        // A fetch without a reader must not be joined: it is about to fail.
        if (this.#fetches.get(index) === fetch) this.#fetches.delete(index)
        fetch.abort.abort()
      }
    }
  }

  #start(index: number): Fetch {
    const abort = new AbortController()
    const fetch: Fetch = { block: this.#load(index, abort.signal), abort, readers: 0 }
    this.#fetches.set(index, fetch)
    return fetch
  }

  async #load(index: number, signal: AbortSignal): Promise<Uint8Array> {
    const start = index * this.#blockBytes
    const block = new Uint8Array(Math.min(this.#blockBytes, this.#source.length - start))
    const filled = await this.#source.read(block, start, signal)
    const whole = block.subarray(0, filled)
    if (filled === block.length) this.#blocks.set(index, whole)
    return whole
  }
}
