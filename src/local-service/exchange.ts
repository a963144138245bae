import type { FastifyInstance, FastifyRequest } from 'fastify'

/** What happened to one request; handed out when its answer has been sent. Never holds the token. */
export interface ServiceEvent {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly status: number
  readonly bagId?: string
  /** Name of an uploaded file as it was sent. */
  readonly name?: string
  /** Length of an uploaded file, or of the body of a download, in bytes. */
  readonly bytes?: number
  /** The `Range` header as it was sent. */
  readonly range?: string
}

/** What becomes known of a request while it is served. */
export interface ServedRequest {
  readonly uid: string
  bagId?: string
  name?: string
  bytes?: number
}

const KEY = 'exchange'

/** Must run before any request is served. */
export function prepareExchanges(app: FastifyInstance): void {
  app.decorateRequest(KEY, null)
}

export function beginExchange(request: FastifyRequest, uid: string): void {
  request.setDecorator<ServedRequest>(KEY, { uid })
}

/** The exchange of an authorised request. */
export function exchangeOf(request: FastifyRequest): ServedRequest {
  return request.getDecorator<ServedRequest>(KEY)
}

export function toServiceEvent(request: FastifyRequest, status: number): ServiceEvent {
  const known = request.getDecorator<ServedRequest | null>(KEY)
  const range = request.headers.range
  return {
    method: request.method,
    path: request.url.split('?', 1)[0] ?? '',
    status,
    ...(known?.bagId === undefined ? {} : { bagId: known.bagId }),
    ...(known?.name === undefined ? {} : { name: known.name }),
    ...(known?.bytes === undefined ? {} : { bytes: known.bytes }),
    ...(range === undefined ? {} : { range }),
  }
}
