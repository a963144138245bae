import type { DriveErrorCode } from '../domain/errors.ts'
import type { Endpoint } from './wire-meter.ts'

const CODES: Readonly<Record<number, DriveErrorCode>> = {
  400: 'bad-request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'gone',
  408: 'timed-out',
  410: 'gone',
  413: 'too-large',
  416: 'bad-request',
  422: 'rejected',
  423: 'unavailable',
  425: 'unavailable',
  429: 'rate-limited',
  502: 'unavailable',
  503: 'unavailable',
  504: 'unavailable',
  507: 'no-space',
}

/** What a status that is not 2xx means (docs/SERVICE.md, and what proxies answer before a service). */
export function codeOfStatus(status: number): DriveErrorCode {
  const code = CODES[status]
  if (code !== undefined) return code
  // 520 to 530 are a content network's words for "the service behind me does not answer".
  if (isOfGateway(status)) return 'unavailable'
  if (status >= 500) return 'server-error'
  if (status >= 400) return 'bad-request'
  return 'bad-answer'
}

/**
 * True when a service may have carried the request out although it answered this status. A gateway
 * may have lost the answer, or the failure came after the work was done.
 */
export function mayHaveBeenDone(status: number): boolean {
  return status >= 500 && ![501, 503, 507].includes(status)
}

/** True for what a gateway says when the service behind it did not answer in time, or not at all. */
export function isOfGateway(status: number): boolean {
  return status === 502 || status === 504 || (status >= 520 && status <= 530)
}

const HINTS: Partial<Record<DriveErrorCode, string>> = {
  unauthorized: "Check the token; the service's dashboard gives out a new one.",
  forbidden: 'The token may not do this; check it in the dashboard of the service.',
  'no-space': 'Delete something from the account, or get more space for it.',
  'bad-answer': 'Is the URL of the service right?',
  'too-large': 'The service does not take a file of this size.',
}

/** What a person can do about the answer, when there is something. */
export function hintOf(code: DriveErrorCode, endpoint: Endpoint): string | undefined {
  // Every service has an account and a listing.
  const isNoService =
    ['account', 'list'].includes(endpoint) && ['gone', 'bad-answer'].includes(code)
  return isNoService ? 'Is this the URL of the service itself, without /api?' : HINTS[code]
}
