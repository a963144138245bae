import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Download } from '../service/storage-service.ts'
import type { BagContent } from './bag-content.ts'
import type { BagFile } from './bag-file.ts'
import { BagStream, type StreamDependencies, type StreamSettings } from './bag-stream.ts'
import { COMPARED_BYTES, isKnownLength } from './belief.ts'
import type { CacheSpace } from './cache-space.ts'
import { cutAt } from './chunks.ts'
import type { DiskSpeed } from './disk-speed.ts'
import type { DownloadWindow } from './download-window.ts'
import type { Waiters } from './waiters.ts'

export interface LandingDependencies extends Omit<StreamDependencies, 'isLength'> {
  readonly content: BagContent
  readonly window: DownloadWindow
  readonly waiters: Waiters
  readonly space: CacheSpace
  readonly diskSpeed: DiskSpeed
  /** Called when more of the content is here, or it is known whether that is to be believed. */
  readonly changed: () => void
  /** Called with the number of bytes that were taken. */
  readonly took: (bytes: number) => void
}

/** Answers that may be of different content have so many bytes in common, at least, where one goes on from another. */
const OVERLAP_BYTES = 16 * 1024

/**
 * Takes what one stream brings into a bag's content: its bytes are bounded by the room there is, written into the
 * file, and compared where they are here already. It ends at the end of the content, at `limit`, at `end`, or where it meets
 * bytes that are here. When the service answers no ranges it runs from 0 to the end.
 */
export class Landing {
  /** Where the next byte of the stream goes. */
  position: number
  /** It need not go on from here; Infinity for the whole rest. */
  limit: number
  /** Another stream brings what begins here; Infinity while none does. */
  end: number
  /** True once an answer's head arrived. */
  headSeen = false
  readonly #dependencies: LandingDependencies
  readonly #stream: BagStream
  /** The generation that is being filled. */
  readonly #file: BagFile
  readonly #replaced: AbortSignal
  /** The length that the answer told is in doubt, and too few of its bytes are here to judge it. */
  #isDoubtful = false
  #gained = 0
  /** What is here up to this position came with an answer that is not believed yet. */
  #compareTo = 0
  /** Bytes that were here already and came again, since it last took new ones. */
  #compared = 0
  /** Where the body ends that is coming, when that is not the end of the content. */
  #bodyEnd = Infinity

  constructor(
    from: { readonly position: number; readonly limit: number; readonly end?: number },
    dependencies: LandingDependencies,
    settings: StreamSettings,
  ) {
    this.position = from.position
    this.limit = from.limit
    this.end = from.end ?? Infinity
    this.#dependencies = dependencies
    this.#file = dependencies.content.file
    this.#replaced = dependencies.content.replaced
    const { content } = dependencies
    const isLength = (length: number): boolean => isKnownLength(content.known.lengths, length)
    this.#stream = new BagStream(content.bagId, { ...dependencies, isLength }, settings)
  }

  get stopped(): boolean {
    return this.#stream.stopped
  }

  stop(): void {
    this.#stream.stop()
  }

  /** Resolves when it ended or was stopped, rejects when it failed for good. */
  async run(): Promise<void> {
    const stop = (): void => {
      this.stop()
    }
    this.#replaced.addEventListener('abort', stop, { once: true })
    try {
      if (this.#replaced.aborted) this.stop()
      while (!this.stopped && !(await this.#isFilled()));
    } finally {
      this.#replaced.removeEventListener('abort', stop)
    }
  }

  /** Makes one request; false when it failed and another is to be made. */
  async #isFilled(): Promise<boolean> {
    const before = this.#gained
    try {
      await this.#fill()
      return true
    } catch (error) {
      if (this.stopped) return true
      const progress = { isRecent: this.#gained > before, isAny: this.#gained > 0 }
      await this.#stream.failed(error, this.position, progress)
      return false
    }
  }

  async #fill(): Promise<void> {
    const { head, end } = await this.#stream.ask(this.#startFor(this.position), this.end)
    this.#bodyEnd = end
    try {
      this.#begin(head)
      for await (const { chunks } of this.#stream.bytesOf(head)) {
        if (!(await this.#takeAll(chunks, head))) return
      }
      if (!this.stopped) this.#bodyEnded(head)
    } finally {
      head.body.destroy()
    }
  }

  /** Where a request begins that is to go on from `position`: what is in doubt has to come again. */
  #startFor(position: number): number {
    const { ranges, total } = this.#file
    const isInDoubt = total === undefined
    if (!isInDoubt && !this.#dependencies.content.isToOverlap) return position
    if (!ranges.contains(position - 1, position)) return position
    this.#compareTo = position
    return Math.max(0, position - (isInDoubt ? COMPARED_BYTES : OVERLAP_BYTES))
  }

  /** Looks at an answer's head; throws when it belongs to other content than what is here. */
  #begin(head: Download): void {
    this.position = head.start
    this.headSeen = true
    this.#isDoubtful = this.#dependencies.content.takeHead(head)
    this.#dependencies.changed()
    if (!this.#isDoubtful && this.#isDone()) this.stop()
  }

  /** Resolves false when the stream was stopped. */
  async #takeAll(chunks: readonly Uint8Array[], head: Download): Promise<boolean> {
    const toCompare = COMPARED_BYTES - (this.position - head.start)
    for (const piece of this.#isDoubtful ? cutAt(chunks, toCompare) : [chunks]) {
      if (this.stopped || !(await this.#take(piece))) return false
      this.#judgeFirst(head)
    }
    return !this.#stream.stopped
  }

  /** Of content whose length nothing else tells, the first bytes are judged before the rest is taken. */
  #judgeFirst(head: Download): void {
    if (!this.#isDoubtful) return
    if (this.position - head.start >= COMPARED_BYTES || this.stopped) this.#judgeHead(head)
  }

  #judgeHead(head: Download): void {
    this.#isDoubtful = false
    this.#judge(head.totalLength ?? this.position, head, true)
    if (this.#file.isWhole || this.#isDone()) this.stop()
  }

  #bodyEnded(head: Download): void {
    if (this.#isDoubtful) this.#judgeHead(head)
    const { total } = this.#file
    if (this.stopped) return
    if (total === undefined) this.#judge(this.position, head, false)
    else if (this.position < Math.min(total, this.#bodyEnd)) {
      const { position } = this
      throw new DriveError('unavailable', `The download ended after ${position} of ${total} bytes.`)
    }
  }

  /** A body came whose length was in doubt or not told, or its head did; throws when it must come again. */
  #judge(length: number, head: Download, isHeadOnly: boolean): void {
    const { content, waiters, changed } = this.#dependencies
    try {
      content.bodyCame(length, head)
    } catch (error) {
      // Nothing of what is no content stays.
      if (isHeadOnly || isDriveError(error, 'bad-answer')) this.position = head.start
      // The stream has to step back first: what is missing is not to be asked for before that.
      waiters.wake()
      throw error
    }
    changed()
  }

  /** True when there is nothing left to do that could not be asked for later. */
  #isDone(): boolean {
    const { position } = this
    if (!this.#dependencies.support.canResume || position < this.#compareTo) return false
    // The end of the body is next, and leaves the connection fit for another request.
    if (position === this.#file.total || this.#isToCompare()) return false
    return (
      position >= Math.min(this.limit, this.end) ||
      this.#file.ranges.contains(position, position + 1)
    )
  }

  /** It has met what another answer brought, which may be of other content. */
  #isToCompare(): boolean {
    const { position } = this
    if (!this.#dependencies.content.isToOverlap || this.#compared >= OVERLAP_BYTES) return false
    return this.#file.ranges.contains(position, position + 1)
  }

  /** Takes bytes from the position on. Resolves false when it was stopped meanwhile, and they are not taken. */
  async #take(chunks: readonly Uint8Array[]): Promise<boolean> {
    const { content, changed, took } = this.#dependencies
    const start = this.position
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    if (!this.#takeNow(chunks, length) && !(await this.#takeLater(chunks, length))) return false
    this.position = start + length
    // Readers first.
    changed()
    took(length)
    content.landed(chunks, start)
    if (this.#isDone()) this.stop()
    return true
  }

  /** New bytes, at once; false where room, the disk or a comparison is to be waited for. */
  #takeNow(chunks: readonly Uint8Array[], length: number): boolean {
    const { diskSpeed, space } = this.#dependencies
    const end = this.position + length
    if (!diskSpeed.keepsUp || end > (this.#file.total ?? Infinity)) return false
    if (this.#file.ranges.firstPresent(this.position) < end) return false
    if (!space.reserveNow(length)) return false
    const gained = this.#tryWrite(chunks)
    space.adjust(gained - length)
    if (gained < length) return false
    this.#gained += gained
    this.#compared = 0
    return true
  }

  /** 0 when it failed: the usual way tries again and says why. */
  #tryWrite(chunks: readonly Uint8Array[]): number {
    try {
      return this.#dependencies.diskSpeed.time(() => this.#file.writeNow(chunks, this.position))
    } catch {
      return 0
    }
  }

  async #takeLater(chunks: readonly Uint8Array[], length: number): Promise<boolean> {
    const { window, space } = this.#dependencies
    if (this.position + length > (this.#file.total ?? Infinity)) {
      throw new DriveError('bad-answer', 'The download is longer than it said.')
    }
    if (!(await window.makeRoom(this.#stream, this.position, length))) return false
    const before = this.#gained
    try {
      await this.#put(chunks, this.position + length)
    } finally {
      space.adjust(this.#gained - before - length)
    }
    return !this.stopped
  }

  async #put(chunks: readonly Uint8Array[], end: number): Promise<void> {
    const { ranges } = this.#file
    const start = this.position
    if (ranges.firstPresent(start) >= end) {
      await this.#write(chunks, start)
      return
    }
    const bytes = Buffer.concat(chunks)
    for (let at = start; at < end;) {
      const gap = ranges.firstGap(at)
      const next = Math.min(end, gap > at ? gap : ranges.firstPresent(at))
      const piece = bytes.subarray(at - start, next - start)
      if (gap > at) this.#compare(piece, at)
      else await this.#write([piece], at)
      at = next
    }
  }

  async #write(chunks: readonly Uint8Array[], position: number): Promise<void> {
    const { window } = this.#dependencies
    for (;;) {
      try {
        this.#gained += await this.#file.write(chunks, position)
        this.#compared = 0
        return
      } catch (error) {
        if (!isDriveError(error, 'local-disk-full') || this.stopped) throw error
        if (!(await window.findRoom(this.#stream, this.position))) throw error
      }
    }
  }

  /** Bytes that came a second time and are not what they were: neither can be trusted. */
  #compare(bytes: Uint8Array, position: number): void {
    const here = Buffer.allocUnsafe(bytes.length)
    this.#file.readNow(here, position, bytes.length)
    this.#compared += bytes.length
    if (here.equals(bytes)) return
    const why = `the bytes at ${position} differ from those that came before`
    throw this.#dependencies.content.distrust(why)
  }
}
