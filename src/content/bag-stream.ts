import { Writable } from 'node:stream'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { Clock } from '../domain/clock.ts'
import { canPass, DriveError, isDriveError, systemErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { Download, DriveService } from '../service/drive-service.ts'
import type { BagFile } from './bag-file.ts'
import { COMPARED_BYTES } from './belief.ts'
import type { AnswerHead } from './belief.ts'
import type { DiskPace } from './disk-pace.ts'
import type { RangeSupport } from './range-support.ts'
import { Silence } from './silence.ts'

/**
 * Bytes that may wait for the disk, per stream. Enough for the disk to be handed large writes while
 * the network delivers small chunks; the first chunk never waits for a second.
 */
const BUFFER_BYTES = 2 * 1024 * 1024
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 10_000

/** What a stream needs of the bag that it fills. */
export interface StreamHost {
  /** The generation that is being filled. */
  readonly file: BagFile
  /** False when this bag cannot be asked for ranges, whatever the service does for others. */
  readonly mayAskRange: boolean
  /**
   * Looks at an answer's head; throws when it belongs to other content than what is here. True when its
   * length is in doubt.
   */
  headArrived(head: Download): boolean
  /** Reserves room where that needs no waiting. */
  makeRoomNow(bytes: number): boolean
  /** Makes and reserves room before a write; resolves false when the stream was stopped meanwhile. */
  makeRoom(stream: BagStream, bytes: number): Promise<boolean>
  /** After the disk was full: true when the write is worth another try. */
  findRoom(stream: BagStream): Promise<boolean>
  /** Gives back reserved bytes that were not needed. */
  giveBack(bytes: number): void
  /** `chunks` are in the file from `position` on. */
  landed(chunks: readonly Uint8Array[], position: number): void
  /** Bytes that came a second time are not what they were, so neither can be trusted. */
  contradicted(position: number): void
  /** A body came whose length was in doubt or not told, or enough of it; throws when it must come again. */
  bodyCame(length: number, head: AnswerHead): void
}

export interface StreamDependencies {
  readonly service: Pick<DriveService, 'download'>
  readonly clock: Clock
  readonly log: Logger
  readonly support: RangeSupport
  readonly pace: DiskPace
}

export interface StreamSettings {
  /** Tries in a row without a single byte of progress before the stream fails. */
  readonly resumeTries: number
  /** Milliseconds at less than the least pace, over all tries, before the stream fails. */
  readonly silenceMs: number
}

/**
 * One stream of a bag's bytes into its file, taken up again where it was cut. It ends at the end of
 * the content, at `limit`, or where it meets bytes that are here already. When the service answers
 * no ranges it runs from 0 to the end and passes over what is here, comparing.
 */
export class BagStream {
  /** Where the next byte of the body goes. */
  position: number
  /** The stream need not go on from here; Infinity for the whole rest. */
  limit: number
  /** True once an answer's head arrived. */
  headSeen = false
  readonly #host: StreamHost
  readonly #dependencies: StreamDependencies
  readonly #settings: StreamSettings
  readonly #file: BagFile
  readonly #stop = new AbortController()
  readonly #silence: Silence
  /** Bytes of this stream that were new. */
  #gained = 0
  /** What is here up to this position came with an answer that is not believed yet. */
  #compareTo = 0

  constructor(
    host: StreamHost,
    from: { readonly position: number; readonly limit: number },
    dependencies: StreamDependencies,
    settings: StreamSettings,
  ) {
    this.#host = host
    this.#file = host.file
    this.position = from.position
    this.limit = from.limit
    this.#dependencies = dependencies
    this.#settings = settings
    this.#silence = new Silence(dependencies.clock, settings.silenceMs)
  }

  get stopped(): boolean {
    return this.#stop.signal.aborted
  }

  /** Aborted when the stream is stopped. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  stop(): void {
    this.#stop.abort(new DriveError('interrupted', 'The download was stopped.'))
  }

  /** Resolves when the stream ended or was stopped, rejects when it failed for good. */
  async run(): Promise<void> {
    let tries = 0
    for (let failures = 0; !this.stopped; failures += 1) {
      const gained = this.#gained
      try {
        await this.#request()
        return
      } catch (error) {
        if (this.signal.aborted) return
        this.#silence.failed()
        // What came with an answer that is no content is no progress.
        if (this.#gained > gained && !isDriveError(error, 'bad-answer')) tries = failures = 0
        if (!isNotAsked(error) || this.#gained === 0) tries += 1
        const pauseMs = pauseBefore(failures, error)
        if (tries > this.#settings.resumeTries || !this.#mayGoOn(error)) throw error
        if (pauseMs >= this.#silence.leftMs) throw this.#asSilence(error)
        await this.#pause({ tries, pauseMs }, error)
      }
    }
  }

  /** Who is in the middle waits for a service that went silent; nobody begins with one that is. */
  #mayGoOn(error: unknown): boolean {
    if (!canPass(error) || isDriveError(error, 'interrupted')) return false
    return !isNotAsked(error) || isDriveError(error, 'unavailable') || this.#gained > 0
  }

  /** A service that was silent is told as such, with the whole time, whatever the last try died of. */
  #asSilence(error: unknown): unknown {
    if (isDriveError(error) && (error.facts.status !== undefined || error.facts.notReached)) {
      return error
    }
    if (!isDriveError(error, 'timed-out') && !this.#silence.isOfService) return error
    return this.#silence.error(error)
  }

  async #pause(
    { tries, pauseMs }: { readonly tries: number; readonly pauseMs: number },
    error: unknown,
  ): Promise<void> {
    const { clock, log } = this.#dependencies
    const { bagId } = this.#file
    log.info({ bagId, position: this.position, tries, err: error }, 'A download was cut; resuming.')
    try {
      await clock.sleep(pauseMs, this.signal)
      this.#silence.failed(pauseMs)
    } catch (reason) {
      if (!this.stopped) throw reason
    }
  }

  async #request(): Promise<void> {
    const { service, support } = this.#dependencies
    const from = this.#from()
    const asked = support.mayAsk && this.#host.mayAskRange ? from : 0
    const head = await service.download(this.#file.bagId, {
      signal: this.signal,
      limits: this.#silence.limits,
      onBegin: () => {
        this.#silence.asked()
      },
      ...(asked > 0 && { range: { start: asked } }),
    })
    this.#silence.answered()
    try {
      const isDoubtful = this.#takeHead(asked, head)
      if (isDoubtful) await this.#compareHead(head)
      else if (this.#isDone()) this.stop()
    } catch (error) {
      head.body.destroy()
      throw toCut(error)
    }
    await this.#receive(head.body)
    this.#bodyEnded(head)
  }

  /** Where to go on. Bytes that came without a length may be no content: the last of them must come again. */
  #from(): number {
    const { position } = this
    const { ranges, total } = this.#file
    if (total !== undefined || !ranges.contains(position - 1, position)) return position
    this.#compareTo = position
    return Math.max(0, position - COMPARED_BYTES)
  }

  /** Takes the first bytes of content whose length nothing else tells, for the next answer to be compared. */
  async #compareHead(head: Download): Promise<void> {
    const { position } = this
    for await (const chunk of head.body.iterator({ destroyOnReturn: false })) {
      await this.#take([chunk as Uint8Array])
      if (this.stopped || this.position - position >= COMPARED_BYTES) break
    }
    try {
      this.#host.bodyCame(head.totalLength ?? this.position, head)
    } catch (error) {
      this.position = position
      throw error
    }
    if (this.#file.isWhole || this.#isDone()) this.stop()
  }

  /** Resolves at the end of the body. What came before a cut is written before it rejects. */
  async #receive(body: Readable): Promise<void> {
    const { signal } = this
    const sink = toSink(
      (chunk) => this.#takeNow(chunk),
      (chunks) => this.#take(chunks),
    )
    const close = (): void => {
      body.destroy()
      sink.destroy()
    }
    sink.once('error', close)
    // It may fail once more after it was closed, when nobody listens any longer.
    body.on('error', ignore)
    signal.addEventListener('abort', close, { once: true })
    const written = outcomeOf(finished(sink, { signal }))
    body.pipe(sink)
    const cut = await outcomeOf(finished(body, { signal }))
    if (cut !== undefined) sink.end()
    const failure = (await written) ?? cut
    signal.removeEventListener('abort', close)
    body.destroy()
    if (failure !== undefined) throw toCut(failure)
  }

  #takeHead(asked: number, head: Download): boolean {
    if (head.start > asked) {
      throw new DriveError('bad-answer', 'The service answered another range than was asked for.')
    }
    this.#dependencies.support.note(asked, head)
    this.position = head.start
    this.headSeen = true
    return this.#host.headArrived(head)
  }

  /** True when the stream has nothing left to do that could not be asked for later. */
  #isDone(): boolean {
    if (!this.#dependencies.support.canResume || !this.#host.mayAskRange) return false
    if (this.position < this.#compareTo) return false
    // The end of the body is next, and leaves the connection fit for another request.
    if (this.position === this.#file.total) return false
    const { ranges } = this.#file
    return this.position >= this.limit || ranges.contains(this.position, this.position + 1)
  }

  /** The common case of `#take`: new bytes, room for them, and a disk that keeps up. */
  #takeNow(chunk: Uint8Array): boolean {
    const { pace } = this.#dependencies
    const start = this.position
    const end = start + chunk.length
    if (this.stopped || this.#silence.leftMs === 0 || !pace.keepsUp) return false
    if (end > (this.#file.total ?? Infinity)) return false
    if (this.#file.ranges.firstPresent(start) < end) return false
    if (!this.#host.makeRoomNow(chunk.length)) return false
    const gained = this.#tryWrite(chunk, start)
    this.#host.giveBack(chunk.length - gained)
    if (gained < chunk.length) return false
    this.#gained += gained
    this.#silence.came(gained)
    this.#landed([chunk], start, end)
    this.#silence.answered()
    return true
  }

  /** 0 when it failed: the usual way tries again and says why. */
  #tryWrite(chunk: Uint8Array, position: number): number {
    try {
      return this.#dependencies.pace.time(() => this.#file.writeNow([chunk], position))
    } catch {
      return 0
    }
  }

  #landed(chunks: readonly Uint8Array[], start: number, end: number): void {
    this.position = end
    this.#host.landed(chunks, start)
    if (this.#isDone()) this.stop()
  }

  async #take(chunks: readonly Uint8Array[]): Promise<void> {
    this.#silence.came(lengthOf(chunks))
    await this.#store(chunks)
    this.#silence.check()
    this.#silence.answered()
  }

  async #store(chunks: readonly Uint8Array[]): Promise<void> {
    const bytes = lengthOf(chunks)
    const start = this.position
    if (start + bytes > (this.#file.total ?? Infinity)) {
      throw new DriveError('bad-answer', 'The download is longer than it said.')
    }
    if (!(await this.#host.makeRoom(this, bytes))) return
    const gained = this.#gained
    try {
      await this.#put(chunks, start, start + bytes)
    } finally {
      this.#host.giveBack(bytes - (this.#gained - gained))
    }
    if (!this.stopped) this.#landed(chunks, start, start + bytes)
  }

  async #put(chunks: readonly Uint8Array[], start: number, end: number): Promise<void> {
    const { ranges } = this.#file
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
    for (;;) {
      try {
        this.#gained += await this.#file.write(chunks, position)
        return
      } catch (error) {
        if (!isDriveError(error, 'local-disk-full')) throw error
        if (this.stopped || !(await this.#host.findRoom(this))) throw error
      }
    }
  }

  #compare(bytes: Uint8Array, position: number): void {
    const here = Buffer.allocUnsafe(bytes.length)
    this.#file.readNow(here, position, bytes.length)
    if (!here.equals(bytes)) this.#host.contradicted(position)
  }

  #bodyEnded(head: Download): void {
    const { total } = this.#file
    if (total === undefined) this.#judgeEnd(head)
    else if (this.position < total) {
      const { position } = this
      throw new DriveError('unavailable', `The download ended after ${position} of ${total} bytes.`)
    }
  }

  #judgeEnd(head: Download): void {
    try {
      this.#host.bodyCame(this.position, head)
    } catch (error) {
      // Nothing of what is no content stays.
      if (isDriveError(error, 'bad-answer')) this.position = head.start
      throw error
    }
  }
}

function lengthOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, chunk) => sum + chunk.length, 0)
}

const ignore = (): void => undefined

/** What a promise rejects with; undefined when it resolves. */
async function outcomeOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
    return undefined
  } catch (error) {
    return error
  }
}

/**
 * A stream that hands over what arrives at once where `takeNow` can have it, else all that arrived since
 * the last hand-over, one at a time.
 */
function toSink(
  takeNow: (chunk: Uint8Array) => boolean,
  take: (chunks: readonly Uint8Array[]) => Promise<void>,
): Writable {
  const takeAll = (chunks: readonly Uint8Array[], done: (error?: Error) => void): void => {
    take(chunks).then(
      () => {
        done()
      },
      (error: unknown) => {
        done(error instanceof Error ? error : new Error(String(error)))
      },
    )
  }
  return new Writable({
    highWaterMark: BUFFER_BYTES,
    decodeStrings: false,
    write: (chunk: Uint8Array, _encoding, done) => {
      if (takeNow(chunk)) done()
      else takeAll([chunk], done)
    },
    writev: (items, done) => {
      takeAll(
        items.map(({ chunk }) => chunk as Uint8Array),
        done,
      )
    },
  })
}

/** Errors of a body are DriveErrors already. One that closed with neither an end nor an error was cut; anything else is a bug. */
function toCut(error: unknown): unknown {
  if (isDriveError(error)) return error
  const code = systemErrorCode(error)
  if (code !== 'ERR_STREAM_PREMATURE_CLOSE' && code !== 'ECONNRESET') return error
  return new DriveError('unavailable', 'The download was cut.', { cause: error })
}

function isNotAsked(error: unknown): boolean {
  return isDriveError(error) && error.facts.notAsked === true
}

function pauseBefore(failures: number, error: unknown): number {
  const asked = isDriveError(error) ? error.facts.retryAfterMs : undefined
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures)
  // Half of it at random, so that many cut downloads do not come back in step.
  return asked ?? longest / 2 + Math.random() * (longest / 2)
}
