import type { Clock } from '../domain/clock.ts'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { WholeFile } from '../domain/whole-file.ts'
import type { Download } from '../service/storage-service.ts'
import { BagFile } from './bag-file.ts'
import { Agreement } from './agreement.ts'
import { BagKnowledge, type BagKnowledgeDeps } from './bag-knowledge.ts'
import { Belief, COMPARED_BYTES, type AnswerHead } from './belief.ts'
import type { CacheLayout } from './cache-layout.ts'
import type { CacheSpace } from './cache-space.ts'
import { ContentHash } from './content-hash.ts'
import type { TakenBack } from './taken-back.ts'
import type { Waiters } from './waiters.ts'

/** Present ranges are written down after this many new bytes, but not more often than every 2 s. */
const SAVE_EVERY_BYTES = 16 * 1024 * 1024
const SAVE_EVERY_MS = 2000
/** Starts over after which the content is given up: the service cannot agree with itself. */
const MOST_RESTARTS = 3

/** Work on the disk in the background, one task at a time. */
export interface BackgroundWork {
  add<Result>(task: () => Promise<Result>): Promise<Result>
  /** Resolves when so little is waiting that more can be taken on. */
  ready(): Promise<void>
}

export interface ContentDependencies extends BagKnowledgeDeps {
  readonly log: Logger
  readonly clock: Clock
  readonly layout: CacheLayout
  readonly space: CacheSpace
  readonly background: BackgroundWork
  readonly takenBack: TakenBack
  /** The reads that wait for bytes. */
  readonly waiters: Waiters
  /** Called when content became complete, or a check ended. */
  readonly changed: () => void
}

/** What the last answer said of the content beside its bytes. */
interface Description {
  readonly contentType: string | undefined
  readonly fileName: string | undefined
  readonly tellsLength: boolean
}

/**
 * What is on disk of one bag in use, and how far it can be trusted.
 *
 * Content has a generation. When its bytes cannot be trusted, a new one begins with nothing. A
 * reader that was given bytes of the old one must not be given more: it would hold a mixture.
 */
export class BagContent {
  readonly bagId: BagId
  readonly known: BagKnowledge
  readonly #key: string
  readonly #dependencies: ContentDependencies
  /** Files whose descriptors readers may still hold. */
  readonly #superseded: BagFile[] = []
  readonly #belief = new Belief(() => this.known.lengths)
  readonly #agreement = new Agreement()
  #file: BagFile
  #hash = new ContentHash()
  #generation = 0
  #replacing = new AbortController()
  #description: Description | undefined
  #isComplete: boolean
  #isContradicted = false
  #checking: Promise<void> | undefined
  #storing: Promise<void> = Promise.resolve()
  #mismatches = 0
  #restarts = 0
  #savedBytes: number
  #savedAtMs = 0

  /** `file` is what is on disk; complete content was checked when it came. */
  constructor(
    found: { readonly file: BagFile; readonly key: string; readonly isComplete: boolean },
    dependencies: ContentDependencies,
  ) {
    this.bagId = found.file.bagId
    this.known = new BagKnowledge(dependencies, found.file.bagId)
    this.#key = found.key
    this.#file = found.file
    this.#isComplete = found.isComplete
    this.#dependencies = dependencies
    this.#savedBytes = found.file.ranges.covered
    dependencies.space.adjust(found.file.ranges.covered)
  }

  get file(): BagFile {
    return this.#file
  }

  get generation(): number {
    return this.#generation
  }

  /** Aborted when this generation cannot be trusted, and there is an empty new one: nothing may fill the old. */
  get replaced(): AbortSignal {
    return this.#replacing.signal
  }

  /** Undefined while no answer for this generation has come. */
  get description(): Description | undefined {
    return this.#description
  }

  get isComplete(): boolean {
    return this.#isComplete
  }

  get isChecking(): boolean {
    return this.#checking !== undefined
  }

  /** What has its own name on disk, and has not been called into question since. */
  get whole(): WholeFile | undefined {
    const { fd, isFinal } = this.#file
    if (!this.#isComplete || !isFinal || this.#isContradicted || fd === undefined) return undefined
    return { bagId: this.bagId, generation: this.#generation, fd }
  }

  /** True length, as far as it is known without asking. */
  get length(): number | undefined {
    return this.#file.total ?? this.known.length
  }

  /** True when all that is here came once, with a length that nothing else tells. */
  get isInDoubt(): boolean {
    return this.#belief.doubted !== undefined
  }

  /** True when answers may be of different content although each is whole: they are to overlap. */
  get isToOverlap(): boolean {
    return this.#agreement.etagsDiffer
  }

  #isWithheld(takesDoubts: boolean): boolean {
    return (this.#agreement.isHeld && !this.#isComplete) || (this.isInDoubt && !takesDoubts)
  }

  /** True when no length is known that would end the content past `position`. */
  isEndless(position: number): boolean {
    return this.length === undefined && this.known.isPast(position)
  }

  /** How many of the bytes asked for can be given now: all, or those up to the end; or undefined. */
  lengthHere(wanted: number, position: number, takesDoubts: boolean): number | undefined {
    if (this.#isWithheld(takesDoubts)) return undefined
    const total = this.#belief.doubted ?? this.length
    if (total !== undefined && position >= total) return 0
    const end = Math.min(position + wanted, total ?? Infinity)
    if (!this.#file.ranges.contains(position, end)) return undefined
    // All is here but not checked yet, so the last byte is held back. A reader that comes to the
    // end without an error was then given no wrong bytes.
    if (end === total && !this.#isComplete && this.#file.isWhole) return undefined
    return end - position
  }

  /**
   * Compares an answer's head with what is here and what is known; throws when they disagree. True when
   * its length is in doubt: then `bodyCame` is to be told.
   */
  takeHead(head: Download): boolean {
    const file = this.#file
    const { totalLength } = head
    const isDoubtful = totalLength !== file.total && this.#belief.doubts(head)
    const why = this.#agreement.contradictionOf(head, file)
    if (why !== undefined) throw this.distrust(why)
    if (!isDoubtful) this.#believe(totalLength ?? this.known.lengths.uploadedLength)
    file.etag = head.etag ?? file.etag
    const { contentType, fileName } = head
    this.#description = { contentType, fileName, tellsLength: totalLength !== undefined }
    return isDoubtful
  }

  #believe(length: number | undefined): void {
    if (length === undefined || this.#file.total !== undefined) return
    // What little came with another length was no content, as a rule.
    const isOverruled = this.isInDoubt && this.#belief.doubted !== length
    if (isOverruled && this.#file.ranges.covered <= COMPARED_BYTES) this.dropExcept(0, 0)
    this.#belief.forget()
    this.#file.total = length
  }

  /** A body came whose length was in doubt, or not told; throws when it is not to be believed, or not yet. */
  bodyCame(length: number, head: AnswerHead): void {
    if (length < this.#file.ranges.end) {
      throw new DriveError('unavailable', `The download ended after ${length} bytes.`)
    }
    try {
      if (!this.#belief.cameWhole(length, head)) throw this.#belief.doubtOf(length)
      this.#believe(length)
    } catch (error) {
      if (this.#agreement.isHeld) this.dropExcept(0, 0)
      throw error
    }
  }

  /** `chunks` are in the file from `position` on. */
  landed(chunks: readonly Uint8Array[], position: number): void {
    // Costs more than half of the speed of a fast line, so only where there is a sum to compare.
    if (this.known.sha256 !== undefined) this.#hash.take(chunks, position)
    this.#saveNowAndThen()
  }

  /** When all bytes are here: checks them where there is something to compare with. */
  check(): void {
    if (!this.#file.isWhole || this.#isComplete || this.isChecking) return
    const expected = this.known.sha256
    if (expected === undefined) {
      this.#becomeComplete()
      return
    }
    this.#checking = this.#compare(this.#file, expected).finally(() => {
      this.#checking = undefined
      this.#dependencies.changed()
    })
  }

  /** The service contradicts itself: begins again with nothing. Returns the error to throw. */
  distrust(why: string): DriveError {
    const { bagId } = this
    const file = this.#file
    const error = new DriveError('corrupt', `The service changed its content: ${why}.`)
    this.#dependencies.log.warn({ bagId, why }, 'Content changed at the service; starting over.')
    this.#restarts += 1
    this.#replaceFile()
    this.#discard(file)
    if (this.#restarts > MOST_RESTARTS) {
      this.#restarts = 0
      this.#dependencies.waiters.fail(error)
    }
    return error
  }

  /** An answer of the service tells otherwise than what is here: that goes with its last reader. Returns the error to throw. */
  contradicted(): DriveError {
    this.#isContradicted = true
    this.#dependencies.takenBack.note()
    this.known.forgetLength()
    return new DriveError('corrupt', 'The content came twice, and not the same.')
  }

  /** Takes over complete content that was put in place under the bag's own name. */
  adopt(file: BagFile): void {
    const old = this.#file
    this.#supersede(file)
    this.#belief.forget()
    if (!old.isFinal) this.#discard(old)
    this.#isComplete = true
    this.#storing = Promise.resolve()
  }

  /** Frees the disk of what came so far, but for those bytes; it can be fetched again. */
  dropExcept(start: number, end: number): void {
    const { space } = this.#dependencies
    space.adjust(-this.#file.ranges.covered)
    this.#file.dropExcept(start, end)
    space.adjust(this.#file.ranges.covered)
  }

  /** Resolves when content that is complete has its own name on disk, or could not get it. */
  async finalized(): Promise<void> {
    await this.#storing
  }

  /** Resolves when no check is under way. */
  async checked(): Promise<void> {
    await this.#checking
  }

  /** Makes sure that a later process finds what is here; resolves false when that cannot be. */
  async keep(): Promise<boolean> {
    const file = this.#file
    if (this.#isComplete) {
      await this.#storing
      return file.isFinal && !this.#isContradicted
    }
    if (this.#isContradicted) return false
    // What came without a length that is believed may be anything.
    if (file.ranges.covered === 0 || file.total === undefined) return false
    try {
      await this.#dependencies.background.add(() => file.saveRanges())
      return true
    } catch (error) {
      this.#warn(error, 'A partial download cannot be kept.')
      return false
    }
  }

  /** Closes every descriptor. What is here becomes idle content when it `isKept`, else it is removed. */
  retire(isKept: boolean): void {
    const { space, clock } = this.#dependencies
    const file = this.#file
    try {
      file.touch(clock.now())
    } catch (error) {
      this.#warn(error, 'The last use of cached content cannot be noted.')
    }
    for (const each of [file, ...this.#superseded]) each.close()
    space.adjust(-file.ranges.covered)
    if (!isKept) this.#discard(file)
    else space.putBack(this.#key, file.isFinal ? 'complete' : 'partial', file.ranges.covered)
  }

  /**
   * Reads complete content again. False when it is not what its known sum stands for; then it is set
   * aside. Content of a wrong length was removed when it was opened, and is not complete any more.
   */
  async isAsKnown(): Promise<boolean> {
    await this.#storing
    const file = this.#file
    const expected = this.known.sha256
    if (!this.#isComplete || expected === undefined) return false
    const sum = await new ContentHash().finish(file)
    if (sum === expected) return true
    if (file === this.#file) {
      this.#isComplete = false
      this.#mismatched(expected, sum)
    }
    return false
  }

  async #compare(file: BagFile, expected: string): Promise<void> {
    // Begins after the turn in which the last bytes landed, when the hash has taken them.
    await Promise.resolve()
    try {
      const sum = await this.#hash.finish(file)
      if (file !== this.#file || this.#isComplete) return
      if (sum === expected) this.#becomeComplete()
      else this.#mismatched(expected, sum)
    } catch (error) {
      this.#dependencies.waiters.fail(fromFileSystem(error, 'Cannot check downloaded content'))
    }
  }

  #becomeComplete(): void {
    const { total } = this.#file
    this.#isComplete = true
    this.#mismatches = 0
    this.#restarts = 0
    if (total !== undefined) this.known.learn(total)
    this.#storing = this.#store(this.#file)
    this.#dependencies.changed()
  }

  #mismatched(expected: string, sum: string): void {
    const { bagId } = this
    const { log, space } = this.#dependencies
    const file = this.#file
    const bytes = file.ranges.covered
    log.error({ bagId, expected, sum }, 'A download has a wrong SHA-256; it was set aside.')
    this.#mismatches += 1
    file.setAside()
    this.#replaceFile()
    space.putBack(this.#key, 'bad', bytes)
    if (this.#mismatches < 2) return
    this.#mismatches = 0
    this.#dependencies.waiters.fail(
      new DriveError('corrupt', `Bag ${bagId} came twice with a wrong SHA-256.`, {
        hint: 'The log has both sums.',
      }),
    )
  }

  #replaceFile(): void {
    const old = this.#file
    this.#supersede(this.#emptyFile())
    this.#superseded.pop()
    this.#belief.forget()
    this.#generation += 1
    this.#dependencies.takenBack.note()
    old.close()
    this.#description = undefined
    const replacing = this.#replacing
    this.#replacing = new AbortController()
    replacing.abort()
    // A reader of the old generation gets its error now, and not when new bytes arrive.
    this.#dependencies.waiters.wake()
  }

  #supersede(file: BagFile): void {
    const old = this.#file
    this.#dependencies.space.adjust(file.ranges.covered - old.ranges.covered)
    this.#superseded.push(old)
    this.#file = file
    this.#hash = new ContentHash()
    this.#savedBytes = file.ranges.covered
  }

  #emptyFile(): BagFile {
    return BagFile.empty(this.#dependencies.layout, this.bagId, this.#key)
  }

  #discard(file: BagFile): void {
    this.#dependencies.space.track(file.discard())
  }

  async #store(file: BagFile): Promise<void> {
    try {
      await this.#dependencies.background.add(() => file.store())
    } catch (error) {
      this.#warn(error, 'Content cannot be kept in the cache.')
      if (file !== this.#file) return
      // After a failed write to the disk, what the page cache shows may be gone the next moment.
      this.#supersede(this.#emptyFile())
      this.#isComplete = false
      this.#discard(file)
    }
  }

  #saveNowAndThen(): void {
    const { background, clock } = this.#dependencies
    const file = this.#file
    const { covered } = file.ranges
    if (this.#isComplete || covered - this.#savedBytes < SAVE_EVERY_BYTES) return
    if (clock.now() - this.#savedAtMs < SAVE_EVERY_MS) return
    this.#savedBytes = covered
    this.#savedAtMs = clock.now()
    background
      .add(() => file.saveRanges())
      .catch((error: unknown) => {
        this.#warn(error, 'A partial download cannot be written down.')
      })
  }

  #warn(error: unknown, message: string): void {
    this.#dependencies.log.warn({ bagId: this.bagId, err: error }, message)
  }
}
