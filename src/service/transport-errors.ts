import { errors } from 'undici'
import { DriveError, systemErrorCode, type DriveErrorCode } from '../domain/errors.ts'
import type { Redact } from './redact.ts'

interface Meaning {
  readonly code: DriveErrorCode
  readonly words: string
  readonly hint?: string
  readonly notReached?: true
}

const CHECK_URL = 'Check the URL of the service and the network.'
const CERTIFICATE: Meaning = {
  code: 'bad-answer',
  words: 'the certificate of the service cannot be trusted',
  hint: 'Is the URL right? A certificate of your own can be named in NODE_EXTRA_CA_CERTS.',
}
const NOT_HTTP: Meaning = {
  code: 'bad-answer',
  words: 'the answer is not HTTP',
  hint: 'Is the URL right, and http:// or https:// as the service wants it?',
}
/** The service cannot be reached, which is known at once. */
const notReached = (words: string): Meaning => ({
  code: 'unavailable',
  words,
  hint: CHECK_URL,
  notReached: true,
})
const CUT: Meaning = { code: 'unavailable', words: 'the connection was cut' }
const TIMED_OUT: Meaning = { code: 'timed-out', words: 'the connection timed out', hint: CHECK_URL }

const MEANINGS: Readonly<Record<string, Meaning>> = {
  ECONNREFUSED: notReached('nothing answers at that address'),
  ENOTFOUND: notReached('its name cannot be found'),
  EAI_AGAIN: notReached('its name cannot be looked up now'),
  EHOSTUNREACH: notReached('it cannot be reached'),
  ENETUNREACH: notReached('there is no network to it'),
  ECONNRESET: CUT,
  EPIPE: CUT,
  UND_ERR_SOCKET: CUT,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: CUT,
  ETIMEDOUT: TIMED_OUT,
  UND_ERR_CONNECT_TIMEOUT: TIMED_OUT,
  UND_ERR_HEADERS_OVERFLOW: NOT_HTTP,
  EPROTO: NOT_HTTP,
  DEPTH_ZERO_SELF_SIGNED_CERT: CERTIFICATE,
  SELF_SIGNED_CERT_IN_CHAIN: CERTIFICATE,
  CERT_HAS_EXPIRED: CERTIFICATE,
  CERT_NOT_YET_VALID: CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: CERTIFICATE,
}

/** Translates an error of the connection. `what` begins the sentence: "Listing the files". */
export function fromTransport(error: unknown, what: string, redact: Redact): DriveError {
  if (error instanceof DriveError) return error
  const { code, words, ...facts } =
    error instanceof errors.HTTPParserError ? NOT_HTTP : meaningOf(systemErrorCode(error))
  return new DriveError(code, `${what} failed: ${words}${placeOf(error)}.`, {
    cause: toPlainCause(error, redact),
    ...facts,
  })
}

function meaningOf(code: string | undefined): Meaning {
  if (code === undefined) return CUT
  const known = MEANINGS[code]
  if (known !== undefined) return known
  if (code.startsWith('ERR_SSL_')) return NOT_HTTP
  if (code.startsWith('ERR_TLS_CERT')) return CERTIFICATE
  return { code: 'unavailable', words: `the connection failed (${code})` }
}

/** The host that was tried, as Node tells it with errors of looking up and connecting. */
function placeOf(error: unknown): string {
  const one: unknown = error instanceof AggregateError ? error.errors[0] : error
  if (!(one instanceof Error)) return ''
  const { hostname, address, port } = one as {
    readonly hostname?: unknown
    readonly address?: unknown
    readonly port?: unknown
  }
  if (typeof hostname === 'string') return ` (${hostname})`
  return typeof address === 'string' ? ` (${address}:${String(port)})` : ''
}

/** Only text travels on: a foreign error can hold bytes that the service sent back to us. */
function toPlainCause(error: unknown, redact: Redact): Error {
  const code = systemErrorCode(error)
  const text = error instanceof Error ? error.message : String(error)
  const cause = new Error(redact(text === '' ? (code ?? 'no words') : text))
  return code === undefined ? cause : Object.assign(cause, { code })
}
