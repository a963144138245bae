import { DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { WholeFile } from '../domain/whole-file.ts'
import type { Bag } from './bag.ts'
import type { Claim } from './claim.ts'
import type { ReadDispatcher } from './read-dispatcher.ts'
import type { ReadTally } from './read-tally.ts'

/**
 * A download runs this far ahead of a reader, and farther the more the reader has read in a row. So
 * one look at the head of 10 GB fetches little, and a player never waits.
 */
const AHEAD_BYTES = 32 * 1024 * 1024
const AHEAD_PER_BYTE_READ = 4
/** The kernel's own read-ahead asks out of order; such reads still count as in a row. */
const IN_A_ROW_BYTES = 1024 * 1024
/** A sequential reader that is this near to a gap has it fetched before it gets there. */
const PREFETCH_BYTES = 8 * 1024 * 1024

/**
 * Reads one bag's content while it arrives. Every failure is a DriveError; a later read tries again,
 * except after `corrupt`: what was read before does not fit what would come.
 */
export class BagReader {
  readonly bagId: BagId
  readonly #bag: Bag
  readonly #claim: Claim
  readonly #readDispatcher: ReadDispatcher
  readonly #tally: ReadTally | undefined
  readonly #isProbe: boolean
  readonly #fromStart: boolean
  readonly #staysNear: boolean
  #closed = false
  #end = 0
  #inARow = 0
  #notedEnd = 0

  /**
   * A probe wants the bytes it reads and no more: nothing is fetched ahead of it or after it. With
   * `fromStart`, the download that tells the length goes on into the content. With `staysNear` it runs no farther ahead
   * the longer it is read.
   */
  constructor(
    bag: Bag,
    readDispatcher: ReadDispatcher,
    options: {
      readonly isProbe: boolean
      /** Takes bytes also while nothing tells that they are content. */
      readonly takesDoubts?: boolean
      readonly listedLength?: number
      readonly fromStart?: boolean
      readonly staysNear?: boolean
      readonly tally?: ReadTally
    },
  ) {
    this.bagId = bag.bagId
    this.#bag = bag
    this.#readDispatcher = readDispatcher
    this.#tally = options.tally
    this.#isProbe = options.isProbe
    this.#fromStart = options.fromStart ?? false
    this.#staysNear = options.staysNear ?? false
    this.#claim = bag.claim(options)
  }

  /** Media type and file name as the last download's head told them. */
  get described(): { readonly contentType?: string; readonly fileName?: string } {
    const { contentType, fileName } = this.#bag.description ?? {}
    return {
      ...(contentType !== undefined && { contentType }),
      ...(fileName !== undefined && { fileName }),
    }
  }

  /** True length in bytes, or the listed one where the service tells none in time; waits a bounded time. */
  async length(signal?: AbortSignal): Promise<number> {
    this.#checkOpen()
    const ahead = this.#fromStart ? AHEAD_BYTES : 0
    const wait = (): Promise<number> => this.#bag.waitForLength(this.#claim, ahead, signal)
    return this.#bag.length === undefined ? this.#waiting(wait) : wait()
  }

  /**
   * Fills `buffer` from `position` on and resolves with the number of bytes. They are fewer than
   * its length only at the end of the content, and 0 past it. Waits for these bytes and no others.
   */
  async read(buffer: Uint8Array, position: number, signal?: AbortSignal): Promise<number> {
    this.#checkOpen()
    if (buffer.length === 0) return 0
    const isHere = this.#bag.isComplete || this.holds(position, position + buffer.length)
    this.#tally?.count(isHere)
    const ahead = this.#isProbe ? 0 : this.#ahead()
    const isProbe = this.#isProbe
    const read = (): Promise<number> =>
      this.#bag.read(this.#claim, buffer, position, { ahead, signal, isProbe })
    const count = await (this.#bag.isComplete
      ? this.#readDispatcher.handOver(read)
      : isHere
        ? read()
        : this.#waiting(read))
    this.#note(position, count)
    return count
  }

  /** True when these bytes are here and need no request. */
  holds(start: number, end: number): boolean {
    this.#checkOpen()
    return this.#bag.holds(this.#claim, start, end)
  }

  /** As `read`, when the bytes are on the disk and it had better be read at once; else undefined. */
  readNow(buffer: Uint8Array, position: number): number | undefined {
    this.#checkOpen()
    const { isComplete } = this.#bag
    if (isComplete && this.#readDispatcher.isToHandOver()) return undefined
    const read = (): number | undefined => this.#bag.readNow(this.#claim, buffer, position)
    const count = isComplete ? this.#readDispatcher.atOnce(buffer.length, read) : read()
    if (count === undefined) return undefined
    this.#tally?.count(true)
    this.#note(position, count)
    return count
  }

  /** The reader may have bytes of what is here, from an earlier one: once they turn out to be wrong, it is told so. */
  noteKept(): void {
    this.#checkOpen()
    this.#bag.noteKept(this.#claim)
  }

  /** The file that has all of it, under its own name: nothing changes that any more. */
  wholeFile(): WholeFile | undefined {
    this.#checkOpen()
    return this.#bag.wholeFile
  }

  get fd(): number | undefined {
    return this.wholeFile()?.fd
  }

  /** Throws `corrupt` when it was given bytes that have since turned out to be wrong. */
  check(): void {
    this.#checkOpen()
    this.#bag.check(this.#claim)
  }

  /** What came so far is to be found by a later process, however this one ends. */
  keep(): void {
    this.#checkOpen()
    this.#bag.keep()
  }

  /** May be called more than once. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#bag.release(this.#claim, this.#isProbe)
  }

  #checkOpen(): void {
    if (this.#closed) throw new DriveError('bad-handle', 'The content was closed.')
  }

  async #waiting(task: () => Promise<number>): Promise<number> {
    return this.#tally === undefined ? task() : this.#tally.waiting(task)
  }

  #ahead(): number {
    if (this.#staysNear) return AHEAD_BYTES
    return Math.max(AHEAD_BYTES, AHEAD_PER_BYTE_READ * this.#inARow)
  }

  #note(position: number, count: number): void {
    const end = position + count
    if (Math.abs(position - this.#end) <= IN_A_ROW_BYTES) this.#inARow += count
    else this.#inARow = 0
    this.#end = end
    if (this.#isProbe || Math.abs(end - this.#notedEnd) < IN_A_ROW_BYTES) return
    this.#notedEnd = end
    if (this.#inARow >= IN_A_ROW_BYTES) {
      this.#bag.readAhead(end, { extendTo: end + this.#ahead(), startWithin: PREFETCH_BYTES })
    }
  }
}
