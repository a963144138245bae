import { crc32 } from 'node:zlib'
import { DriveError } from '../domain/errors.ts'
import type { DataRange } from './archive.ts'
import type { RandomAccessSource } from './source.ts'

const PIECE_BYTES = 1024 * 1024

/** What a stored entry's content needs. */
interface StoredPlace {
  readonly source: RandomAccessSource
  readonly range: DataRange
  /** CRC-32 that the directory tells. */
  readonly crc32: number
}

/**
 * An entry that was stored as it is: read in place, at any position.
 *
 * A reader that goes from the first byte to the last has the CRC checked by the way: the read that
 * completes it fails with `corrupt` when it is wrong, as does every read after.
 */
export class StoredContent {
  readonly kind = 'stored'
  /** Bytes. */
  readonly length: number
  readonly #place: StoredPlace
  /** Bytes from the start that have gone into `#crc`, when they were read in order. */
  #checkedBytes = 0
  #crc = 0

  constructor(place: StoredPlace) {
    this.#place = place
    this.length = place.range.length
  }

  /**
   * Fills `buffer` from `position` and resolves with the bytes it filled; fewer only at the end.
   * @throws DriveError `corrupt` for a wrong CRC, or what the source rejects with.
   */
  async readAt(buffer: Uint8Array, position: number, signal?: AbortSignal): Promise<number> {
    const { source, range } = this.#place
    const target = this.#within(buffer, position)
    if (target.length === 0) return 0
    return this.#taken(
      await source.read(target, range.position + position, signal),
      target,
      position,
    )
  }

  /** As `readAt`, at once; undefined when the bytes must be waited for. */
  readNow(buffer: Uint8Array, position: number): number | undefined {
    const { source, range } = this.#place
    const target = this.#within(buffer, position)
    if (target.length === 0) return 0
    const filled = source.readNow?.(target, range.position + position)
    return filled === undefined ? undefined : this.#taken(filled, target, position)
  }

  /** As much of `buffer` as there is content for. */
  #within(buffer: Uint8Array, position: number): Uint8Array {
    this.#throwIfWrong()
    return buffer.subarray(0, Math.max(0, this.length - position))
  }

  #taken(filled: number, target: Uint8Array, position: number): number {
    if (filled < target.length) throw new DriveError('corrupt', 'The zip ends within an entry.')
    this.#check(target, position)
    return filled
  }

  /** Reads everything that was not read in order yet. @throws DriveError `corrupt` for a wrong CRC. */
  async verify(signal?: AbortSignal): Promise<void> {
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, this.length))
    while (this.#checkedBytes < this.length) await this.readAt(buffer, this.#checkedBytes, signal)
    this.#throwIfWrong()
  }

  #check(bytes: Uint8Array, position: number): void {
    const skip = this.#checkedBytes - position
    if (skip < 0 || skip >= bytes.length) return
    this.#crc = crc32(bytes.subarray(skip), this.#crc)
    this.#checkedBytes = position + bytes.length
    this.#throwIfWrong()
  }

  #throwIfWrong(): void {
    if (this.#checkedBytes === this.length && this.#crc !== this.#place.crc32) {
      throw new DriveError('corrupt', 'The zip is damaged: an entry has a wrong checksum.')
    }
  }
}
