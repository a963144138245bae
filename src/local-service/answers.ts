import type { FastifyReply } from 'fastify'
import { DriveError } from '../domain/errors.ts'
import type { DriveErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { ErrorWire } from '../service/wire.ts'

/** Status and `type` of an error body (docs/SERVICE.md); every other code is the server's own fault. */
const REFUSALS: Partial<
  Record<DriveErrorCode, { readonly status: number; readonly type: string }>
> = {
  'bad-request': { status: 400, type: 'malformed_request' },
  'no-space': { status: 400, type: 'no_space' },
  unauthorized: { status: 401, type: 'unauthorized' },
  forbidden: { status: 403, type: 'forbidden' },
  'not-found': { status: 404, type: 'not_found' },
  rejected: { status: 422, type: 'validation_error' },
}
const SERVER_FAULT = { status: 500, type: 'server_error' }

/** A 422 that names a field of the body. */
export function rejectField(field: string, message: string): DriveError {
  return new DriveError('rejected', message, { fields: ['body', field] })
}

/** The status and body that tell a client of `error`. What went wrong inside is logged, not told. */
export function toErrorAnswer(error: unknown, log: Logger): { status: number; body: ErrorWire } {
  const known = fromFastify(error)
  const refusal = known === undefined ? undefined : REFUSALS[known.code]
  if (known === undefined || refusal === undefined) log.error({ err: error }, 'A request failed.')
  const { status, type } = refusal ?? SERVER_FAULT
  const msg = known?.message ?? 'The server encountered an error.'
  return { status, body: { detail: [{ loc: known?.facts.fields ?? ['request'], msg, type }] } }
}

/** Fastify's own errors carry the status they stand for: any 4xx is a malformed request here. */
function fromFastify(error: unknown): DriveError | undefined {
  if (error instanceof DriveError) return error
  if (!(error instanceof Error) || !('statusCode' in error)) return undefined
  const status = Number(error.statusCode)
  if (status < 400 || status > 499) return undefined
  return new DriveError('bad-request', error.message, { cause: error })
}

/**
 * Sends JSON. As bytes, because Fastify adds a charset to objects and texts, and a published client
 * compares the type with `application/json` exactly.
 */
export function sendJson(reply: FastifyReply, json: string): FastifyReply {
  return reply.header('content-type', 'application/json').send(Buffer.from(json))
}

export function sendError(reply: FastifyReply, error: unknown, log: Logger): FastifyReply {
  const { status, body } = toErrorAnswer(error, log)
  return sendJson(reply.code(status), JSON.stringify(body))
}
