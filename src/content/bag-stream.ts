import { backoffMs } from '../domain/backoff.ts'
import type { Clock } from '../domain/clock.ts'
import { canPass, DriveError, isDriveError, systemErrorCode } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Download, StorageService } from '../service/storage-service.ts'
import { arrivals } from './arrivals.ts'
import type { BagRangeSupport } from './range-support.ts'
import { Silence } from './silence.ts'

const PAUSE = { firstMs: 100, longestMs: 10_000 }

export interface StreamDependencies {
  /** See `DownloadOptions`. */
  readonly isLength: (length: number) => boolean
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

/** Bytes of a bag, and where in the content they begin. */
export interface ArrivedBytes {
  readonly position: number
  readonly chunks: readonly Uint8Array[]
  /** How many they are. */
  readonly length: number
}

/** What a stream has brought, to decide whether it goes on after a failure. */
interface Progress {
  /** True when its last request brought new bytes. */
  readonly isRecent: boolean
  /** True when any of its requests did. */
  readonly isAny: boolean
}

/**
 * The requests for a bag's bytes, one after the other. It knows the network and nothing else: it yields positions with
 * bytes, and how long to wait before a request that failed is made again.
 */
export class BagStream {
  readonly bagId: BagId
  readonly #dependencies: StreamDependencies
  readonly #settings: StreamSettings
  readonly #stop = new AbortController()
  readonly #silence: Silence
  #failures = 0
  #tries = 0

  constructor(bagId: BagId, dependencies: StreamDependencies, settings: StreamSettings) {
    this.bagId = bagId
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

  /**
   * Asks for the content from `start` on, to `end` where that is no Infinity, or for all of it; resolves with the head of
   * the answer, which tells where it begins, and with the end that was asked for.
   */
  async ask(
    start: number,
    end: number,
  ): Promise<{ readonly head: Download; readonly end: number }> {
    const { service, support } = this.#dependencies
    const requestedStart = support.mayAsk ? start : 0
    const head = await service.download(this.bagId, {
      signal: this.signal,
      limits: this.#silence.limits,
      isLength: this.#dependencies.isLength,
      onBegin: () => {
        this.#silence.requestSent()
      },
      ...(requestedStart > 0 && {
        range: { start: requestedStart, ...(end < Infinity && { end }) },
      }),
    })
    this.#silence.answered()
    if (head.start > requestedStart) {
      head.body.destroy()
      throw new DriveError('bad-answer', 'The service answered another range than was asked for.')
    }
    support.note(requestedStart, head)
    // All of it comes where no range was asked for, and from a service that answers none.
    return { head, end: head.start > 0 ? end : Infinity }
  }

  /** The bytes of an answer as they come, to the end of its body. What came before a cut comes before it throws. */
  async *bytesOf(head: Download): AsyncGenerator<ArrivedBytes, void, undefined> {
    let position = head.start
    try {
      for await (const chunks of arrivals(head.body, this.signal)) {
        const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
        this.#silence.came(length)
        yield { position, chunks, length }
        position += length
        this.#silence.check()
        this.#silence.answered()
      }
    } catch (error) {
      throw toCut(error)
    }
  }

  /** Waits until the request that failed is worth another; throws when none is. `position` is where it stands. */
  async failed(error: unknown, position: number, progress: Progress): Promise<void> {
    this.#silence.failed()
    // What came with an answer that is no content is no progress.
    if (progress.isRecent && !isDriveError(error, 'bad-answer')) this.#tries = this.#failures = 0
    if (!isNotAsked(error) || !progress.isAny) this.#tries += 1
    const pauseMs = pauseBefore(this.#failures, error)
    if (this.#tries > this.#settings.resumeTries || !mayGoOn(error, progress)) throw error
    if (pauseMs >= this.#silence.leftMs) throw this.#asSilence(error)
    this.#failures += 1
    await this.#pause(pauseMs, error, position)
  }

  /** A service that was silent is told as such, with the whole time, whatever the last try died of. */
  #asSilence(error: unknown): unknown {
    if (isDriveError(error) && (error.facts.status !== undefined || error.facts.notReached)) {
      return error
    }
    if (!isDriveError(error, 'timed-out') && !this.#silence.isOfService) return error
    return this.#silence.error(error)
  }

  async #pause(pauseMs: number, error: unknown, position: number): Promise<void> {
    const { clock, log } = this.#dependencies
    const { bagId } = this
    log.info({ bagId, position, tries: this.#tries, err: error }, 'A download was cut; resuming.')
    try {
      await clock.sleep(pauseMs, this.signal)
      this.#silence.failed(pauseMs)
    } catch (reason) {
      if (!this.stopped) throw reason
    }
  }
}

/** A stream that has brought bytes waits for a service that went silent. A stream does not begin with one. */
function mayGoOn(error: unknown, progress: Progress): boolean {
  if (!canPass(error) || isDriveError(error, 'interrupted')) return false
  return !isNotAsked(error) || isDriveError(error, 'unavailable') || progress.isAny
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
