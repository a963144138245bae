import { Readable } from 'node:stream'
import type { Dispatcher, Pool } from 'undici'
import type { Clock } from '../domain/clock.ts'
import {
  DriveError,
  isDriveError,
  type DriveErrorCode,
  type DriveErrorFacts,
} from '../domain/errors.ts'
import { bodyLengthOf, toAnswerHeaders, type AnswerHeaders } from './answer-head.ts'
import { Deadline } from './deadline.ts'
import type { Endpoint, WireMeter } from './wire-meter.ts'
import { arrivalMs, refillMs } from './upload-pace.ts'
import type { Redact } from './redact.ts'
import { fromTransport } from './transport-errors.ts'

/** A body that is sent piece by piece, again from its start for each exchange. */
export interface StreamedBody {
  readonly length: number
  /** The last piece completes the request: before it was asked for, the service has only a part. */
  pieces(): AsyncIterable<{ readonly bytes: Uint8Array; readonly isLast: boolean }>
}

export interface ExchangeLimits {
  readonly connectMs: number
  /** From the end of the request to the head of the answer; without a streamed body, from its start. */
  readonly answerMs: number
  readonly stallMs: number
  /** From the start of the request to the end of the answer. */
  readonly wholeMs?: number
}

export interface ExchangeRequest {
  /** Begins the sentence of an error: "Listing the files". */
  readonly what: string
  readonly endpoint: Endpoint
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query as they go on the wire. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer | StreamedBody
  readonly limits: ExchangeLimits
  /** Its reason is a DriveError; it ends the body of the answer too. */
  readonly signal: AbortSignal
}

export interface Answer {
  readonly status: number
  readonly headers: AnswerHeaders
  /** Its errors are DriveErrors. To destroy it frees the connection. */
  readonly body: Readable
  /** An error about this answer; says `answerLost` when the call may have changed something. */
  error(code: DriveErrorCode, words: string, facts?: DriveErrorFacts): DriveError
  /** True when the service had the whole of a request that changes something. */
  readonly mayBeDone: boolean
}

export interface ExchangeDependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly redact: Redact
  readonly meter?: WireMeter
}

/**
 * Sends one request and resolves with the head of the answer, whatever its status. Rejects with
 * `unavailable`, `timed-out`, `bad-answer`, `interrupted`, or what the streamed body threw. The
 * error has `facts.answerLost` when the service may have carried out a request that changes
 * something.
 */
export function exchange(deps: ExchangeDependencies, request: ExchangeRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    new Exchange(deps, request, { resolve, reject }).begin()
  })
}

/** Bytes of an answer that wait for a slow reader before the connection is paused. */
const BUFFERED_BYTES = 256 * 1024
/**
 * Bytes of an answer that are taken in one after the other before everything else has its turn. libuv reads up
 * to 32 pieces of 64 KiB before it looks at another descriptor, such as the kernel's questions.
 */
const BYTES_IN_A_ROW = 512 * 1024
/**
 * The first bytes of a long answer get a head start over the rest: their reader needs the
 * processor.
 */
const HEAD_BYTES = 128 * 1024
const HEAD_START_MS = 5
/** A slow pace may stretch the limit on standing still by this much, so that it stays one. */
const MOST_PATIENCE = 4

interface Outcome {
  resolve(answer: Answer): void
  reject(error: DriveError): void
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #deps: ExchangeDependencies
  readonly #request: ExchangeRequest
  readonly #outcome: Outcome
  readonly #stage: Deadline
  #silence = 'it did not accept the connection in time'
  #cancelWhole: (() => void) | undefined
  #controller: Dispatcher.DispatchController | undefined
  #body: Readable | undefined
  #expected: number | undefined
  #begunAtMs = 0
  #isAsked = false
  #received = 0
  #inARow = 0
  /** The rest has its turn. */
  #isYielding = false
  /** The reader of the body has room. */
  #isWanted = true
  #wasHandedOver = false
  #isOver = false

  constructor(deps: ExchangeDependencies, request: ExchangeRequest, outcome: Outcome) {
    this.#deps = deps
    this.#request = request
    this.#outcome = outcome
    this.#stage = new Deadline(deps.clock, () => {
      this.#fail(this.#error('timed-out', `${request.what} failed: ${this.#silence}.`))
    })
  }

  begin(): void {
    const { signal, method, path, headers, body, limits } = this.#request
    if (signal.aborted) {
      this.#onAbort()
      return
    }
    signal.addEventListener('abort', this.#onAbort, { once: true })
    this.#begunAtMs = this.#deps.clock.now()
    this.#isAsked = true
    this.#stage.start(limits.connectMs)
    if (limits.wholeMs !== undefined) this.#limitWhole(limits.wholeMs)
    const isStreamed = body !== undefined && !Buffer.isBuffer(body)
    this.#deps.pool.dispatch(
      {
        method,
        path,
        headers: isStreamed ? { ...headers, 'content-length': String(body.length) } : headers,
        // undici takes any async iterable; its types do not say so.
        body: isStreamed ? (this.#send(body) as unknown as Readable) : (body ?? null),
        // undici would close the connection after each DELETE with a body, and the next call make a new one.
        reset: false,
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      this,
    )
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) {
      controller.abort(new Error('The exchange is over.'))
      return
    }
    const { body, limits } = this.#request
    if (body !== undefined && !Buffer.isBuffer(body)) {
      this.#enter('it stopped taking the upload', limits.stallMs)
      return
    }
    this.#wasHandedOver = true
    if (body !== undefined) this.#deps.meter?.sent(this.#request.endpoint, body.length)
    this.#enter('it did not answer in time', Math.max(1, limits.answerMs - this.#connectingMs()))
  }

  /** However the clock was set meanwhile, no longer than the limit on it. */
  #connectingMs(): number {
    const tookMs = this.#deps.clock.now() - this.#begunAtMs
    return Math.min(Math.max(0, tookMs), this.#request.limits.connectMs)
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    rawHeaders: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200 || this.#isOver) return
    const headers = toAnswerHeaders(rawHeaders)
    this.#expected = bodyLengthOf(status, headers)
    this.#enter('its answer stopped coming', this.#request.limits.stallMs)
    this.#body = this.#makeBody(controller)
    this.#tellAnswered(String(status))
    this.#outcome.resolve({
      status,
      headers,
      body: this.#body,
      mayBeDone: this.#mayBeDone(),
      error: (code, words, facts) =>
        this.#error(code, `${this.#request.what} failed: ${words}`, facts),
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return
    this.#received += chunk.length
    this.#deps.meter?.received(this.#request.endpoint, chunk.length)
    this.#stage.touch()
    if (this.#body?.push(chunk) !== false) {
      this.#inARow += chunk.length
      const isHead = this.#received === this.#inARow
      if (this.#inARow >= (isHead ? HEAD_BYTES : BYTES_IN_A_ROW)) this.#yield(controller, isHead)
      return
    }
    // A reader that takes its time is no stall.
    this.#isWanted = false
    controller.pause()
    this.#stage.stop()
  }

  #yield(controller: Dispatcher.DispatchController, isHead: boolean): void {
    this.#isYielding = true
    controller.pause()
    const goOn = (): void => {
      this.#inARow = 0
      this.#isYielding = false
      this.#goOn(controller)
    }
    if (isHead) setTimeout(goOn, HEAD_START_MS)
    else setImmediate(goOn)
  }

  #goOn(controller: Dispatcher.DispatchController): void {
    if (this.#isOver || this.#isYielding || !this.#isWanted || !controller.paused) return
    this.#stage.start(this.#request.limits.stallMs)
    controller.resume()
  }

  onResponseEnd(): void {
    if (this.#expected !== undefined && this.#received !== this.#expected) {
      this.#fail(this.#cut())
      return
    }
    this.#end()
    this.#body?.push(null)
  }

  onResponseError(_controller: unknown, error: Error): void {
    const { what } = this.#request
    const { code, message, facts } = fromTransport(error, what, this.#deps.redact)
    // Once the head is here, whatever the connection dies of has cut the answer.
    const isCut = this.#body !== undefined && !isDriveError(error)
    this.#fail(isCut ? this.#cut(facts) : this.#error(code, message, facts))
  }

  /** Counts an upload as handed over from the moment in which its last piece is given away. */
  async *#send(body: StreamedBody): AsyncGenerator<Uint8Array> {
    const { clock } = this.#deps
    const { answerMs, stallMs } = this.#request.limits
    const startedAt = clock.now()
    let sent = 0
    for await (const { bytes, isLast } of body.pieces()) {
      const extraMs = refillMs(clock.now() - startedAt, sent, MOST_PATIENCE * stallMs)
      if (!this.#isAnswered()) this.#stage.start(stallMs + extraMs)
      if (isLast) this.#wasHandedOver = true
      yield bytes
      sent += bytes.length
      this.#deps.meter?.sent(this.#request.endpoint, bytes.length)
    }
    if (this.#isAnswered()) return
    const extraMs = arrivalMs(clock.now() - startedAt, body.length)
    this.#enter('it did not answer in time', answerMs + extraMs)
  }

  #isAnswered(): boolean {
    return this.#body !== undefined || this.#isOver
  }

  #makeBody(controller: Dispatcher.DispatchController): Readable {
    const body = new Readable({
      highWaterMark: BUFFERED_BYTES,
      read: () => {
        this.#isWanted = true
        this.#goOn(controller)
      },
      destroy: (error, done) => {
        if (!this.#isOver) {
          this.#end()
          controller.abort(new Error('The answer is not wanted any more.'))
        }
        done(error)
      },
    })
    // The reader sees the error when it reads. Before that it must not end the process.
    body.on('error', () => undefined)
    return body
  }

  readonly #onAbort = (): void => {
    const { code, message, facts } = this.#request.signal.reason as DriveError
    this.#fail(this.#error(code, message, facts))
  }

  #enter(silence: string, limitMs: number): void {
    this.#silence = silence
    this.#stage.start(limitMs)
  }

  #limitWhole(wholeMs: number): void {
    this.#cancelWhole = this.#deps.clock.after(wholeMs, () => {
      const words = 'it did not answer in time'
      this.#fail(this.#error('timed-out', `${this.#request.what} failed: ${words}.`))
    })
  }

  #cut(facts: DriveErrorFacts = {}): DriveError {
    const of = this.#expected === undefined ? '' : ` of ${this.#expected}`
    const words = `the connection was cut after ${this.#received}${of} bytes`
    return this.#error('unavailable', `${this.#request.what} failed: ${words}.`, facts)
  }

  #mayBeDone(): boolean {
    return this.#wasHandedOver && this.#request.method !== 'GET'
  }

  #error(code: DriveErrorCode, message: string, facts: DriveErrorFacts = {}): DriveError {
    return new DriveError(code, message, {
      ...facts,
      ...(this.#mayBeDone() ? { answerLost: true } : {}),
    })
  }

  #fail(error: DriveError): void {
    if (this.#isOver) return
    this.#end()
    this.#controller?.abort(new Error('The exchange failed.'))
    this.#tellFailed(error)
    if (this.#body === undefined) this.#outcome.reject(error)
    else this.#body.destroy(error)
  }

  #tellAnswered(status: string): void {
    const tookMs = Math.max(0, this.#deps.clock.now() - this.#begunAtMs)
    this.#deps.meter?.answered(this.#request.endpoint, status, tookMs)
  }

  #tellFailed({ code }: DriveError): void {
    if (!this.#isAsked) return
    if (this.#body === undefined) this.#tellAnswered('none')
    this.#deps.meter?.failed(this.#request.endpoint, code)
  }

  #end(): void {
    this.#isOver = true
    this.#stage.stop()
    this.#cancelWhole?.()
    this.#request.signal.removeEventListener('abort', this.#onAbort)
  }
}
