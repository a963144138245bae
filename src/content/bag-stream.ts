import { Writable } from 'node:stream'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { backoffMs } from '../domain/backoff.ts'
import type { Clock } from '../domain/clock.ts'
import { canPass, DriveError, isDriveError, systemErrorCode } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Download, StorageService } from '../service/storage-service.ts'
import { COMPARED_BYTES } from './belief.ts'
import type { AnswerHead } from './belief.ts'
import type { BagRangeSupport } from './range-support.ts'
import { Silence } from './silence.ts'

/**
 * Bytes that may wait for the disk, per stream. Enough for the disk to be handed large writes while
 * the network delivers small chunks; the first chunk never waits for a second.
 */
const BUFFER_BYTES = 2 * 1024 * 1024
const PAUSE = { firstMs: 100, longestMs: 10_000 }

/** Where the bytes of a stream go: it knows what is here of the content, and what of that may be believed. */
export interface StreamSink {
  readonly bagId: BagId
  /** Length of the content in bytes, once it is believed. */
  readonly total: number | undefined
  /** True when every byte is here. */
  readonly isWhole: boolean
  /** Bytes of this stream that were new. */
  readonly gained: number
  /** Where a request begins that is to go on from `position`: what is in doubt has to come again. */
  startFor(position: number): number
  /**
   * Looks at an answer's head; throws when it belongs to other content than what is here. True when its
   * length is in doubt.
   */
  takeHead(head: Download): boolean
  /** Takes new bytes at once; false where room, the disk or a comparison is to be waited for. */
  takeNow(chunk: Uint8Array, position: number): boolean
  /** Takes bytes from the stream's position on, and compares those that are here. Resolves false when it was stopped. */
  take(stream: BagStream, chunks: readonly Uint8Array[]): Promise<boolean>
  /** The stream is past `chunks`: readers may have them. */
  landed(chunks: readonly Uint8Array[], position: number): void
  /** True where a stream that came to `position` has nothing to bring that is not here. */
  isMet(position: number): boolean
  /** True while bytes at `position` have to be compared, whether they are here or not. */
  isCompared(position: number): boolean
  /** A body came whose length was in doubt or not told, or enough of it; throws when it must come again. */
  bodyCame(length: number, head: AnswerHead): void
}

export interface StreamDependencies {
  readonly service: Pick<StorageService, 'download'>
  readonly clock: Clock
  readonly log: Logger
  readonly support: BagRangeSupport
}

export interface StreamSettings {
  /** Tries in a row without a single byte of progress before the stream fails. */
  readonly resumeTries: number
  /** Milliseconds at less than the least speed, over all tries, before the stream fails. */
  readonly silenceMs: number
}

/**
 * One stream of a bag's bytes from the service into a sink, taken up again where it was cut. It ends at the
 * end of the content, at `limit`, or where it meets bytes that are here already. When the service answers
 * no ranges it runs from 0 to the end, and the sink compares what is here.
 */
export class BagStream {
  /** Where the next byte of the body goes. */
  position: number
  /** The stream need not go on from here; Infinity for the whole rest. */
  limit: number
  /** True once an answer's head arrived. */
  headSeen = false
  readonly #sink: StreamSink
  readonly #dependencies: StreamDependencies
  readonly #settings: StreamSettings
  readonly #stop = new AbortController()
  readonly #silence: Silence

  constructor(
    sink: StreamSink,
    from: { readonly position: number; readonly limit: number },
    dependencies: StreamDependencies,
    settings: StreamSettings,
  ) {
    this.#sink = sink
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
      const gained = this.#sink.gained
      try {
        await this.#request()
        return
      } catch (error) {
        if (this.signal.aborted) return
        this.#silence.failed()
        // What came with an answer that is no content is no progress.
        if (this.#sink.gained > gained && !isDriveError(error, 'bad-answer')) tries = failures = 0
        if (!isNotAsked(error) || this.#sink.gained === 0) tries += 1
        const pauseMs = pauseBefore(failures, error)
        if (tries > this.#settings.resumeTries || !this.#mayGoOn(error)) throw error
        if (pauseMs >= this.#silence.leftMs) throw this.#asSilence(error)
        await this.#pause({ tries, pauseMs }, error)
      }
    }
  }

  /**
   * A stream that has brought bytes waits for a service that went silent. A stream does not begin
   * with one.
   */
  #mayGoOn(error: unknown): boolean {
    if (!canPass(error) || isDriveError(error, 'interrupted')) return false
    return !isNotAsked(error) || isDriveError(error, 'unavailable') || this.#sink.gained > 0
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
    const { bagId } = this.#sink
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
    const requestedStart = support.mayAsk ? this.#sink.startFor(this.position) : 0
    const head = await service.download(this.#sink.bagId, {
      signal: this.signal,
      limits: this.#silence.limits,
      onBegin: () => {
        this.#silence.requestSent()
      },
      ...(requestedStart > 0 && { range: { start: requestedStart } }),
    })
    this.#silence.answered()
    try {
      const isDoubtful = this.#takeHead(requestedStart, head)
      if (isDoubtful) await this.#compareHead(head)
      else if (this.#isDone()) this.stop()
    } catch (error) {
      head.body.destroy()
      throw toCut(error)
    }
    await this.#receive(head.body)
    this.#bodyEnded(head)
  }

  /** Takes the first bytes of content whose length nothing else tells, for the next answer to be compared. */
  async #compareHead(head: Download): Promise<void> {
    const { position } = this
    for await (const chunk of head.body.iterator({ destroyOnReturn: false })) {
      await this.#take([chunk as Uint8Array])
      if (this.stopped || this.position - position >= COMPARED_BYTES) break
    }
    try {
      this.#sink.bodyCame(head.totalLength ?? this.position, head)
    } catch (error) {
      this.position = position
      throw error
    }
    if (this.#sink.isWhole || this.#isDone()) this.stop()
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
    // It may fail once more after it was closed, when it has no listener any longer.
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

  #takeHead(requestedStart: number, head: Download): boolean {
    if (head.start > requestedStart) {
      throw new DriveError('bad-answer', 'The service answered another range than was asked for.')
    }
    this.#dependencies.support.note(requestedStart, head)
    this.position = head.start
    this.headSeen = true
    return this.#sink.takeHead(head)
  }

  /** True when the stream has nothing left to do that could not be asked for later. */
  #isDone(): boolean {
    if (!this.#dependencies.support.canResume || this.#sink.isCompared(this.position)) return false
    // The end of the body is next, and leaves the connection fit for another request.
    if (this.position === this.#sink.total) return false
    return this.position >= this.limit || this.#sink.isMet(this.position)
  }

  /** The common case of `#take`: new bytes that need no waiting. */
  #takeNow(chunk: Uint8Array): boolean {
    if (this.stopped || this.#silence.leftMs === 0) return false
    if (!this.#sink.takeNow(chunk, this.position)) return false
    this.#silence.came(chunk.length)
    this.#landed([chunk], chunk.length)
    this.#silence.answered()
    return true
  }

  #landed(chunks: readonly Uint8Array[], bytes: number): void {
    const start = this.position
    this.position = start + bytes
    this.#sink.landed(chunks, start)
    if (this.#isDone()) this.stop()
  }

  async #take(chunks: readonly Uint8Array[]): Promise<void> {
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    this.#silence.came(bytes)
    if (await this.#sink.take(this, chunks)) this.#landed(chunks, bytes)
    this.#silence.check()
    this.#silence.answered()
  }

  #bodyEnded(head: Download): void {
    const { total } = this.#sink
    if (total === undefined) this.#judgeEnd(head)
    else if (this.position < total) {
      const { position } = this
      throw new DriveError('unavailable', `The download ended after ${position} of ${total} bytes.`)
    }
  }

  #judgeEnd(head: Download): void {
    try {
      this.#sink.bodyCame(this.position, head)
    } catch (error) {
      // Nothing of what is no content stays.
      if (isDriveError(error, 'bad-answer')) this.position = head.start
      throw error
    }
  }
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
 * A stream that hands over what arrives at once where `takeNow` takes it. Otherwise it hands over
 * all that arrived since the last hand-over, one at a time.
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
  const serviceWaitMs = isDriveError(error) ? error.facts.retryAfterMs : undefined
  const longest = backoffMs(failures, PAUSE)
  // Half of it at random, so that many cut downloads do not come back in step.
  return serviceWaitMs ?? longest / 2 + Math.random() * (longest / 2)
}
