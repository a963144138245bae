import { DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { WholeFile } from '../domain/whole-file.ts'
import { BagContent } from './bag-content.ts'
import type { ContentDependencies } from './bag-content.ts'
import type { BagKnowledge } from './bag-knowledge.ts'
import type { BagFile } from './bag-file.ts'
import type { StreamDependencies } from './bag-stream.ts'
import { BagStreams } from './bag-streams.ts'
import type { StreamCount } from './stream-count.ts'
import { Claim, type ClaimOptions } from './claim.ts'
import type { DiskSpeed } from './disk-speed.ts'
import { DownloadWindow } from './download-window.ts'
import { BagRangeSupport, type RangeSupport } from './range-support.ts'
import { Waiters } from './waiters.ts'
import type { Need, Wait } from './waiters.ts'

export interface BagDependencies
  extends
    Omit<ContentDependencies, 'waiters' | 'changed'>,
    Omit<StreamDependencies, 'support' | 'isLength'> {
  readonly support: RangeSupport
  readonly diskSpeed: DiskSpeed
  readonly count: StreamCount
  /** Called when the bag is unused, its descriptors are closed and its content is idle. */
  readonly retired: () => void
}

export interface BagSettings {
  readonly graceMs: number
  readonly resumeTries: number
  readonly silenceMs: number
}

/** A service that tells no length is given this long to send all of the content, in milliseconds. */
const LISTED_AFTER_MS = 1_000

/** One bag in use: its content, the streams that fill it, and the reads that wait for bytes. */
export class Bag {
  readonly #dependencies: BagDependencies
  readonly #settings: BagSettings
  readonly #claims = new Set<Claim>()
  readonly #waiters: Waiters
  readonly #content: BagContent
  readonly #streams: BagStreams
  readonly #window: DownloadWindow
  readonly #isAnswered = (): boolean => this.#content.description !== undefined
  #cancelGrace: (() => void) | undefined
  #retiring: Promise<void> | undefined
  #isRetired = false
  #isShutDown = false

  constructor(
    found: { readonly file: BagFile; readonly key: string; readonly isComplete: boolean },
    dependencies: BagDependencies,
    settings: BagSettings,
  ) {
    this.#dependencies = dependencies
    this.#settings = settings
    const { background, clock, space } = dependencies
    const waiters = new Waiters(clock)
    const changed = (): void => {
      this.#changed()
    }
    const content = new BagContent(found, { ...dependencies, waiters, changed })
    const window = new DownloadWindow({ space, content, waiters }, settings, clock)
    const support = new BagRangeSupport(dependencies.support)
    const mayStart = (): Promise<void> => background.ready()
    const parts = { ...dependencies, content, window, waiters, support, changed, mayStart }
    this.#waiters = waiters
    this.#content = content
    this.#window = window
    this.#streams = new BagStreams(parts, settings)
  }

  get bagId(): BagId {
    return this.#content.bagId
  }

  get isComplete(): boolean {
    return this.#content.isComplete
  }

  /** True length of the content, as far as it is known without asking. */
  get length(): number | undefined {
    return this.#content.length
  }

  /** What the last answer said of the content beside its bytes. */
  get description(): BagContent['description'] {
    return this.#content.description
  }

  /** What is known of it beside its bytes. */
  get known(): BagKnowledge {
    return this.#content.known
  }

  /** True when what is here came once, and nothing else tells that it is content. */
  get isInDoubt(): boolean {
    return this.#content.isInDoubt
  }

  get receivedBytes(): number {
    return this.#content.file.ranges.covered
  }

  get isDownloading(): boolean {
    return this.#streams.size > 0
  }

  /** Path of complete content that has its own name. */
  get finalPath(): string | undefined {
    const { file } = this.#content
    return this.isComplete && file.isFinal ? file.path : undefined
  }

  get wholeFile(): WholeFile | undefined {
    return this.#content.whole
  }

  claim(options: ClaimOptions): Claim {
    const claim = new Claim(options)
    this.#claims.add(claim)
    this.#cancelGrace?.()
    this.#cancelGrace = undefined
    return claim
  }

  /** Gives a claim back. The last one stops the downloads, after the grace or `atOnce`. */
  release(claim: Claim, atOnce: boolean): void {
    if (!this.#claims.delete(claim) || this.#claims.size > 0) return
    if (atOnce) this.#streams.stopAll()
    else if (this.#streams.size > 0) {
      this.#cancelGrace = this.#dependencies.clock.after(this.#settings.graceMs, () => {
        this.#streams.stopAll()
      })
    }
    this.#retireWhenIdle()
    // What is complete becomes idle in a moment; a write that needs its room waits for that.
    if (this.isComplete) this.#dependencies.space.expect(this.#retireSoon())
  }

  /**
   * Bytes from `position` on, when they are here: how many, fewer than asked for only at the end.
   * Throws `corrupt` when the reader holds bytes that have since turned out to be wrong.
   */
  readNow(claim: Claim, buffer: Uint8Array, position: number): number | undefined {
    const length = this.#give(claim, buffer.length, position)
    if (length === undefined || length === 0) return length
    return this.#content.file.readNow(buffer, position, length)
  }

  noteKept(claim: Claim): void {
    claim.given(this.#content.generation)
  }

  /** Throws `corrupt` when the reader holds bytes that have since turned out to be wrong. */
  check(claim: Claim): void {
    claim.check(this.#content.generation)
  }

  /** True when all bytes from `start` to `end` are here, as a reader may have them. */
  holds(claim: Claim, start: number, end: number): boolean {
    return this.#give(claim, end - start, start) === end - start
  }

  /** As `readNow`, and waits for the bytes. `ahead`: how far the download may go on past them. */
  async read(
    claim: Claim,
    buffer: Uint8Array,
    position: number,
    options: {
      readonly ahead: number
      readonly signal: AbortSignal | undefined
      readonly isProbe: boolean
    },
  ): Promise<number> {
    if (this.isComplete) {
      const length = this.#give(claim, buffer.length, position) ?? 0
      return length === 0 ? 0 : this.#content.file.read(buffer, position, length)
    }
    const now = this.readNow(claim, buffer, position)
    if (now !== undefined) return now
    const end = position + buffer.length
    const attempt = (): number | undefined => this.readNow(claim, buffer, position)
    const need = (): Need | undefined => this.#need(position, end + options.ahead)
    const atMostMs = options.isProbe ? this.#settings.silenceMs : undefined
    return this.#wait({ attempt, need, atMostMs, isAnswered: this.#isAnswered }, options.signal)
  }

  /**
   * The true length. Waits for the head of a download, or for all of it when the head has none.
   * That wait is short, and then the claim's listed length is the answer. That download may go on
   * for `ahead` bytes. Rejects `timed-out`, also while bytes come.
   */
  async waitForLength(
    claim: Claim,
    ahead: number,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    const known = this.length
    if (known !== undefined) return claim.tell(known)
    let isLate = false
    const cancel = this.#dependencies.clock.after(LISTED_AFTER_MS, () => {
      isLate = true
      this.#waiters.wake()
    })
    const attempt = (): number | undefined => {
      const { total } = this.#content.file
      const isUntold = this.#content.description?.tellsLength === false
      return isLate && isUntold ? (total ?? claim.listedLength) : total
    }
    const need = (): Need | undefined => this.#need(0, this.#isAnswered() ? Infinity : ahead)
    try {
      const atMostMs = this.#settings.silenceMs
      return claim.tell(
        await this.#wait({ attempt, need, atMostMs, isAnswered: this.#isAnswered }, signal),
      )
    } finally {
      cancel()
    }
  }

  /**
   * For a reader that is at `position` and goes on. Lets the stream ahead of it run to `extendTo`,
   * or starts one when the next gap is less than `startWithin` away.
   */
  readAhead(
    position: number,
    reach: { readonly extendTo: number; readonly startWithin: number },
  ): void {
    if (this.isComplete) return
    const need = this.#need(position, reach.extendTo)
    if (need === undefined || need.ahead <= 0) return
    if (this.#streams.extend(need.position, reach.extendTo)) return
    if (need.position - position > reach.startWithin) return
    this.#streams.cover(need, this.#waiters.needs())
  }

  /** Takes over complete content that was put in place under the bag's own name. */
  adopt(file: BagFile): void {
    this.#streams.stopAll()
    this.#content.adopt(file)
    this.#waiters.wake()
  }

  /** Writes down which bytes are here, in the background. */
  keep(): void {
    this.#content.keep().catch((error: unknown) => {
      this.#dependencies.log.error({ bagId: this.bagId, err: error }, 'Content could not be kept.')
    })
  }

  /** Resolves when content that is complete has its own name on disk, or could not get it. */
  async finalized(): Promise<void> {
    await this.#content.finalized()
  }

  /** An answer of the service tells otherwise than what is here: that goes with its last reader. Returns the error to throw. */
  contradicted(): DriveError {
    return this.#content.contradicted()
  }

  /** Compares complete content with its known sum once more; false sets it aside. */
  async isAsKnown(): Promise<boolean> {
    return this.#content.isAsKnown()
  }

  /** Stops everything and puts what came so far aside, even while readers hold claims. */
  async shutDown(): Promise<void> {
    this.#isShutDown = true
    this.#claims.clear()
    this.#cancelGrace?.()
    this.#streams.stopAll()
    this.#waiters.fail(cacheClosed())
    await this.#streams.ended()
    await this.#content.checked()
    this.#retireWhenIdle()
    await this.#retiring
  }

  /** As `lengthHere` of the content; notes what generation the reader is given. */
  #give(claim: Claim, wanted: number, position: number): number | undefined {
    const { generation } = this.#content
    claim.check(generation)
    if (claim.mayEndOtherwise(position, position + wanted, this.length)) return undefined
    const length = this.#content.lengthHere(wanted, position, claim.takesDoubts)
    if (length !== undefined && length > 0) claim.given(generation)
    return length
  }

  #need(from: number, end: number): Need | undefined {
    const position = this.#content.file.ranges.firstGap(from)
    if (position >= (this.length ?? Infinity)) return undefined
    return { from, position, ahead: end - position }
  }

  #wait<Result>(wait: Wait<Result>, signal: AbortSignal | undefined): Promise<Result> {
    // The kernel may have many more reads in store: none of them is to wait for what cannot come.
    if (this.#isShutDown) return Promise.reject(cacheClosed())
    const answer = this.#waiters.wait(wait, signal)
    this.#pump()
    return answer
  }

  /** Makes sure that all bytes that reads wait for are under way. */
  #pump(): void {
    this.#content.check()
    const needs = this.#waiters.needs()
    for (const need of needs) this.#streams.cover(need, needs)
    this.#window.resumeParked()
  }

  /** More of the content is here, or something is known that was not. */
  #changed(): void {
    this.#content.check()
    this.#waiters.wake()
    this.#pump()
    this.#retireWhenIdle()
  }

  #isIdle(): boolean {
    return this.#claims.size === 0 && this.#streams.size === 0 && !this.#content.isChecking
  }

  async #retireSoon(): Promise<void> {
    await this.#streams.ended()
    await this.#retiring
  }

  #retireWhenIdle(): void {
    if (!this.#isIdle() || this.#isRetired || this.#retiring !== undefined) return
    this.#retiring = this.#retire()
      .catch((error: unknown) => {
        const { bagId } = this
        this.#dependencies.log.error({ bagId, err: error }, 'Content could not be put aside.')
      })
      .finally(() => {
        this.#retiring = undefined
        this.#retireWhenIdle()
      })
    this.#dependencies.space.expect(this.#retiring)
  }

  /** Puts the content aside, unless a reader comes in the meantime and stays. */
  async #retire(): Promise<void> {
    while (this.#isIdle() && !this.#isRetired) {
      const { file } = this.#content
      const bytes = this.receivedBytes
      const isKept = await this.#content.keep()
      const isAsKept = file === this.#content.file && bytes === this.receivedBytes
      if (!this.#isIdle() || !isAsKept) continue
      this.#isRetired = true
      this.#cancelGrace?.()
      this.#dependencies.retired()
      this.#content.retire(isKept)
    }
  }
}

function cacheClosed(): DriveError {
  return new DriveError('interrupted', 'The cache was closed.')
}
