import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Download } from '../service/storage-service.ts'
import type { BagContent } from './bag-content.ts'
import type { BagFile } from './bag-file.ts'
import type { BagStream, StreamSink } from './bag-stream.ts'
import { COMPARED_BYTES, type AnswerHead } from './belief.ts'
import type { CacheSpace } from './cache-space.ts'
import type { DiskSpeed } from './disk-speed.ts'
import type { DownloadWindow } from './download-window.ts'
import type { Waiters } from './waiters.ts'

export interface LandingDependencies {
  readonly content: BagContent
  readonly window: DownloadWindow
  readonly waiters: Waiters
  readonly space: CacheSpace
  readonly diskSpeed: DiskSpeed
  /** Called with the head of each answer; true when its length is in doubt. */
  readonly onHead: (head: Download) => boolean
  /** Called when more of the content is here, or it is known whether that is to be believed. */
  readonly onChange: () => void
}

/**
 * Where one stream lands: its bytes are bounded by the room there is, written into the file of the bag's
 * content, and compared where they are here already.
 */
export class Landing implements StreamSink {
  readonly #dependencies: LandingDependencies
  /** The generation that is being filled. */
  readonly #file: BagFile
  #gained = 0
  /** What is here up to this position came with an answer that is not believed yet. */
  #compareTo = 0

  constructor(dependencies: LandingDependencies) {
    this.#dependencies = dependencies
    this.#file = dependencies.content.file
  }

  get bagId(): BagId {
    return this.#file.bagId
  }

  get total(): number | undefined {
    return this.#file.total
  }

  get isWhole(): boolean {
    return this.#file.isWhole
  }

  get gained(): number {
    return this.#gained
  }

  startFor(position: number): number {
    const { ranges, total } = this.#file
    if (total !== undefined || !ranges.contains(position - 1, position)) return position
    this.#compareTo = position
    return Math.max(0, position - COMPARED_BYTES)
  }

  isMet(position: number): boolean {
    return this.#file.ranges.contains(position, position + 1)
  }

  isCompared(position: number): boolean {
    return position < this.#compareTo
  }

  takeHead(head: Download): boolean {
    return this.#dependencies.onHead(head)
  }

  takeNow(chunk: Uint8Array, position: number): boolean {
    const { diskSpeed, space } = this.#dependencies
    const end = position + chunk.length
    if (!diskSpeed.keepsUp || end > (this.#file.total ?? Infinity)) return false
    if (this.#file.ranges.firstPresent(position) < end) return false
    if (!space.reserveNow(chunk.length)) return false
    const gained = this.#tryWrite(chunk, position)
    space.adjust(gained - chunk.length)
    if (gained < chunk.length) return false
    this.#gained += gained
    return true
  }

  /** 0 when it failed: the usual way tries again and says why. */
  #tryWrite(chunk: Uint8Array, position: number): number {
    try {
      return this.#dependencies.diskSpeed.time(() => this.#file.writeNow([chunk], position))
    } catch {
      return 0
    }
  }

  async take(stream: BagStream, chunks: readonly Uint8Array[]): Promise<boolean> {
    const { window, space } = this.#dependencies
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    const start = stream.position
    if (start + bytes > (this.#file.total ?? Infinity)) {
      throw new DriveError('bad-answer', 'The download is longer than it said.')
    }
    if (!(await window.makeRoom(stream, bytes))) return false
    const gained = this.#gained
    try {
      await this.#put(stream, chunks, start + bytes)
    } finally {
      space.adjust(this.#gained - gained - bytes)
    }
    return !stream.stopped
  }

  async #put(stream: BagStream, chunks: readonly Uint8Array[], end: number): Promise<void> {
    const { ranges } = this.#file
    const start = stream.position
    if (ranges.firstPresent(start) >= end) {
      await this.#write(stream, chunks, start)
      return
    }
    const bytes = Buffer.concat(chunks)
    for (let at = start; at < end;) {
      const gap = ranges.firstGap(at)
      const next = Math.min(end, gap > at ? gap : ranges.firstPresent(at))
      const piece = bytes.subarray(at - start, next - start)
      if (gap > at) this.#compare(piece, at)
      else await this.#write(stream, [piece], at)
      at = next
    }
  }

  async #write(stream: BagStream, chunks: readonly Uint8Array[], position: number): Promise<void> {
    for (;;) {
      try {
        this.#gained += await this.#file.write(chunks, position)
        return
      } catch (error) {
        if (!isDriveError(error, 'local-disk-full')) throw error
        if (stream.stopped || !(await this.#dependencies.window.findRoom(stream))) throw error
      }
    }
  }

  /** Bytes that came a second time and are not what they were: neither can be trusted. */
  #compare(bytes: Uint8Array, position: number): void {
    const here = Buffer.allocUnsafe(bytes.length)
    this.#file.readNow(here, position, bytes.length)
    if (here.equals(bytes)) return
    const why = `the bytes at ${position} differ from those that came before`
    throw this.#dependencies.content.distrust(why)
  }

  landed(chunks: readonly Uint8Array[], position: number): void {
    const { content, onChange } = this.#dependencies
    onChange()
    content.landed(chunks, position)
  }

  bodyCame(length: number, head: AnswerHead): void {
    const { content, waiters, onChange } = this.#dependencies
    try {
      content.bodyCame(length, head)
    } catch (error) {
      // The stream has to step back first: what is missing is not to be asked for before that.
      waiters.wake()
      throw error
    }
    onChange()
  }
}
