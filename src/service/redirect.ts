import type { Answer, ExchangeRequest } from './exchange.ts'
import type { Redact } from './redact.ts'
import { codeOfStatus } from './statuses.ts'

const SAME_METHOD = new Set([307, 308])
const ANY = new Set([301, 302, 303, 307, 308])

export interface RedirectDependencies {
  readonly origin: string
  readonly redact: Redact
}

/**
 * The path to ask instead, on the same origin; undefined when the answer is no redirect. Throws
 * `bad-answer` for one to another origin (the token stays here) and for one that would turn a
 * change into a GET.
 */
export function redirectPath(
  { origin, redact }: RedirectDependencies,
  request: ExchangeRequest,
  answer: Answer,
): string | undefined {
  const location = answer.headers['location']
  if (!ANY.has(answer.status) || location === undefined) return undefined
  answer.body.destroy()
  const here = `${origin}${request.path}`
  if (!URL.canParse(location, here)) {
    throw answer.error('bad-answer', 'it redirects to something that is no URL.')
  }
  const target = new URL(location, here)
  if (target.origin !== origin) {
    throw answer.error('bad-answer', `it redirects to ${redact(target.origin)}, another origin.`, {
      status: answer.status,
      hint: 'If that is the service, use its URL; the token was not sent there.',
    })
  }
  if (request.method !== 'GET' && !SAME_METHOD.has(answer.status)) {
    throw answer.error('bad-answer', `it redirects a ${request.method} (${answer.status}).`, {
      status: answer.status,
      hint: 'Is the URL of the service right?',
    })
  }
  return target.pathname + target.search
}

/**
 * Throws `bad-answer` where a redirect led to what is not there: that tells nothing of what was asked for, unless it is
 * the same path elsewhere on the service.
 */
export function refuseGoneElsewhere(asked: string, answer: Answer, path: string): void {
  if (codeOfStatus(answer.status) !== 'gone' || pathOf(path).endsWith(pathOf(asked))) return
  answer.body.destroy()
  throw answer.error('bad-answer', 'it redirects to something that is not there.', {
    status: answer.status,
    hint: 'Is the URL of the service right?',
  })
}

function pathOf(target: string): string {
  const [path = ''] = target.split('?', 1)
  return path.endsWith('/') ? path.slice(0, -1) : path
}
