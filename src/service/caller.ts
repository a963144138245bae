import type { Pool } from 'undici'
import type { Clock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { withAside } from '../domain/sentences.ts'
import { decodedBody, limitBody, readSome } from './answer-body.ts'
import type { Auth } from './auth.ts'
import { readErrorBody, type ErrorWords } from './error-body.ts'
import { exchange, type Answer, type ExchangeRequest } from './exchange.ts'
import { Patience } from './patience.ts'
import { redirectPath, refuseGoneElsewhere } from './redirect.ts'
import type { Redact } from './redact.ts'
import { parseRetryAfter, withRetry, type Repeatable } from './retry.ts'
import type { Resolved } from './settings.ts'
import { codeOfStatus, hintOf, mayHaveBeenDone } from './statuses.ts'
import type { DeleteOptions } from './storage-service.ts'
import type { Endpoint, WireMeter } from './wire-meter.ts'

/** A request of one of the seven endpoints, without the token. `path` is relative to the base URL. */
export interface Call extends ExchangeRequest, Pick<DeleteOptions, 'onAnswerLost' | 'mayRepeat'> {}

export interface CallerDependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly redact: Redact
  readonly auth: Auth
  readonly meter?: WireMeter
}

/** Most bytes of a failed answer that are read for its words. */
const ERROR_BODY_BYTES = 64 * 1024

/** Carries a call through token, redirect, status and repeat to an answer that can be used. */
export class Caller {
  readonly #deps: CallerDependencies
  readonly #settings: Resolved

  constructor(deps: CallerDependencies, settings: Resolved) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Resolves with what `use` makes of a 2xx answer; what `use` rejects with counts as a failed try. */
  send<T>(call: Call, use: (answer: Answer) => T | Promise<T>): Promise<T> {
    const patience = new Patience(this.#deps.clock, call)
    const { retries, retryBaseMs: baseMs, retryMaxMs: maxMs } = this.#settings
    const repeatable: Repeatable = call.method === 'POST' ? 'until-done' : 'always'
    return withRetry(
      {
        clock: this.#deps.clock,
        random: Math.random,
        onWait: ({ code, facts }, waitMs) => {
          const fields = { call: call.what, code, status: facts.status, waitMs: Math.round(waitMs) }
          this.#deps.log.info(fields, 'A call of the service failed and is made again.')
        },
      },
      { retries, baseMs, maxMs },
      { repeatable, ...call },
      () => telling(call, () => this.#once(call, patience, use)),
    )
  }

  async #once<T>(
    { endpoint }: Call,
    patience: Patience,
    use: (answer: Answer) => T | Promise<T>,
  ): Promise<T> {
    const answer = await patience.spend((limited) => this.#authorized(limited))
    if (answer.status >= 200 && answer.status < 300) return use(answer)
    throw await this.#statusError(answer, endpoint)
  }

  /** A token that is refused may have been replaced meanwhile. */
  async #authorized(call: Call): Promise<Answer> {
    const { auth } = this.#deps
    const { token } = auth
    const answer = await this.#tried(call)
    if (answer.status !== 401 || !(await auth.renew(token))) return answer
    answer.body.destroy()
    return this.#tried(call)
  }

  async #tried(call: Call): Promise<Answer> {
    const { auth } = this.#deps
    let refused: Answer | undefined
    for (const header of auth.candidates()) {
      refused?.body.destroy()
      const answer = await this.#followed(call, auth.headersFor(header))
      if (answer.status >= 200 && answer.status < 300) auth.accepted(header)
      if (answer.status !== 401) return answer
      refused = answer
    }
    if (refused === undefined) throw new Error('There is no header for the token.')
    return refused
  }

  async #followed(call: Call, authHeaders: Record<string, string>): Promise<Answer> {
    const { origin, prefix, onServiceTime } = this.#settings
    const first = {
      ...call,
      path: prefix + call.path,
      headers: { 'user-agent': 'bagfs', ...call.headers, ...authHeaders },
    }
    const answer = await exchange(this.#deps, first)
    const atMs = Date.parse(answer.headers['date'] ?? '')
    if (!Number.isNaN(atMs)) onServiceTime(atMs)
    const { redact } = this.#deps
    const path = redirectPath({ origin, redact }, first, answer)
    if (path === undefined) return answer
    const second = await exchange(this.#deps, { ...first, path })
    if (redirectPath({ origin, redact }, { ...first, path }, second) !== undefined) {
      throw second.error('bad-answer', 'it redirects again and again.', { status: second.status })
    }
    refuseGoneElsewhere(call.path, second, path)
    return second
  }

  async #statusError(answer: Answer, endpoint: Endpoint): Promise<DriveError> {
    const { status, headers } = answer
    const { words, fields, isPage } = await this.#wordsOf(answer)
    // A page that says "not found" is from something that is not the service, and no word about a bag.
    const meant = codeOfStatus(status)
    const code = meant === 'gone' && isPage ? 'bad-answer' : meant
    const hint = hintOf(code, endpoint)
    const retryAfterMs = parseRetryAfter(headers['retry-after'], this.#deps.clock.now())
    const said = words === '' ? 'it gave no reason' : words
    const { message } = answer.error(code, `${withAside(said, `status ${status}`)}.`)
    return new DriveError(code, message, {
      status,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(fields.length === 0 ? {} : { fields }),
      ...(answer.mayBeDone && mayHaveBeenDone(status) ? { answerLost: true } : {}),
      ...(hint === undefined ? {} : { hint }),
    })
  }

  /** The status counts also when the words that go with it never come. */
  async #wordsOf(answer: Answer): Promise<ErrorWords> {
    const { clock, log, redact } = this.#deps
    const lift = limitBody(clock, answer, this.#settings.metadataTimeoutMs)
    try {
      return readErrorBody(redact(await readSome(decodedBody(answer), ERROR_BODY_BYTES)))
    } catch (error) {
      if (!(error instanceof DriveError) || error.code === 'interrupted') throw error
      log.debug({ status: answer.status, code: error.code }, 'The reason of a failure was cut.')
      return { words: '', fields: [], isPage: false }
    } finally {
      lift()
    }
  }
}

async function telling<T>({ onAnswerLost }: Call, attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt()
  } catch (error) {
    if (isDriveError(error) && error.facts.answerLost === true) onAnswerLost?.()
    throw error
  }
}
