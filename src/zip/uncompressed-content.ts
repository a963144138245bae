import { DriveError } from '../domain/errors.ts'
import type { DataRange } from './archive.ts'
import { CrcPieces } from './crc-pieces.ts'
import type { RandomAccessSource } from './source.ts'

/** Where an uncompressed member's content is. */
interface UncompressedPlace {
  readonly source: RandomAccessSource
  readonly range: DataRange
  /** CRC-32 that the directory tells. */
  readonly crc32: number
}

/**
 * A member that is not compressed: read in place, at any position.
 *
 * When all of it was read, in whatever order, the CRC is checked by the way. The read that
 * completes it fails with `corrupt` when it is wrong, as does every read after.
 */
export class UncompressedContent {
  readonly kind = 'uncompressed'
  /** Bytes. */
  readonly length: number
  readonly #place: UncompressedPlace
  readonly #crc = new CrcPieces()
  #isChecked = false

  constructor(place: UncompressedPlace) {
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
    if (!this.#isChecked) {
      this.#crc.add(target, position)
      this.#throwIfWrong()
    }
    return filled
  }

  #throwIfWrong(): void {
    if (this.#isChecked) return
    const crc = this.#crc.of(this.length)
    if (crc === undefined) return
    if (crc !== this.#place.crc32) {
      throw new DriveError('corrupt', 'The zip is damaged: an entry has a wrong checksum.')
    }
    this.#isChecked = true
  }
}
